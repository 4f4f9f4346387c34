def visible(text):
    return text
