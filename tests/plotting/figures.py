"""What tests of pictures share."""


def texts(place):
    """The texts of a figure or of one of its axes."""
    return [text.get_text() for text in place.texts if text.get_text()]
