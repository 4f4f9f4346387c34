"""What tests of pictures share: a drawing as a tree, its texts, and the points of its lines."""

import re
import xml.etree.ElementTree as ElementTree

from npformer.see.plot.svg import label_width


def tree(drawing):
    """A drawing, or the text of a sheet, as a tree without name spaces."""
    text = drawing if isinstance(drawing, str) else drawing.svg()
    return ElementTree.fromstring(text.replace(' xmlns="http://www.w3.org/2000/svg"', ""))


def texts(drawing, kind=None):
    """The texts, those of a class alone if one is named."""
    labels = [each for each in tree(drawing).iter("text") if kind is None or kind in each.get("class", "").split()]
    return ["".join(label.itertext()) for label in labels]


def paths(drawing, *kinds):
    """What the paths of all these classes draw."""
    return [path.get("d") for path in tree(drawing).iter("path") if {*kinds} <= {*path.get("class", "").split()}]


def points(d):
    """The points of a path of lines, a list for each part between gaps."""
    parts = []
    for pen, x, y in re.findall(r"([Ml])(-?[\d.]+) ?(-?[\d.]+)", d):
        if pen == "M":
            parts.append([(float(x), float(y))])
        else:
            last = parts[-1][-1]
            parts[-1].append((round(last[0] + float(x), 1), round(last[1] + float(y), 1)))
    return parts


def expect_inside(drawing):
    """Fails, and says which, if a text of the drawing reaches over its edge, as far as its width is known."""
    root = tree(drawing)
    anchors = {text: group.get("text-anchor") for group in root.iter("g") for text in group.iter("text")}
    for each in root.iter("text"):
        if "transform" not in each.attrib:
            wide = 0.92 * label_width("".join(each.itertext()), 10.5)
            anchor = each.get("text-anchor", anchors.get(each))
            left = float(each.get("x")) - {None: 0.0, "middle": 0.5, "end": 1.0}[anchor] * wide
            assert -2 <= left < left + wide <= drawing.width + 14, "".join(each.itertext())
            assert 0 < float(each.get("y")) <= drawing.height, "".join(each.itertext())
