"""Turns the screen of a terminal, as `tmux capture-pane -e -p` prints it, into an HTML page."""

import html
import re

BACKGROUND = "#16181d"
FOREGROUND = "#d8dce4"

# The 16 colours of a terminal: dark ones, then bright ones.
PALETTE = [
    "#3b4048", "#f2777a", "#8fcf72", "#e8c06a", "#6cb2f0", "#c792ea", "#5fc9d8", "#d8dce4",
    "#6b7280", "#ff9a9c", "#a9e38d", "#ffd98a", "#8fc7ff", "#dcb3f5", "#86e1ec", "#ffffff",
]

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>terminal</title>
<style>
  html {{ background: {background}; }}
  body {{ margin: 0; width: max-content; padding: 18px 22px; }}
  pre {{
    margin: 0;
    width: {columns}ch;
    font: 15px/1.2 "DejaVu Sans Mono", monospace;
    font-variant-ligatures: none;
    color: {foreground};
  }}
</style>
<pre>{screen}</pre>
"""

SEQUENCE = re.compile(r"\x1b\[([0-9;]*)m|\x1b[()][0-9A-B]|[\x0e\x0f]")
FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
FLAGS_OFF = {
    22: ("bold", "dim"),
    23: ("italic",),
    24: ("underline",),
    27: ("reverse",),
    29: ("strike",),
}


def page(screen, columns):
    """An HTML page with this screen."""
    return PAGE.format(
        background=BACKGROUND, foreground=FOREGROUND, columns=columns, screen=spans(screen)
    )


def spans(screen):
    """The screen as text in `span` elements. Attributes last until they are changed, also beyond
    the end of a line."""
    state = {}
    parts = []
    end = 0
    for sequence in SEQUENCE.finditer(screen):
        parts.append(span(screen[end : sequence.start()], state))
        end = sequence.end()
        if sequence.group(1) is not None:
            apply([int(code or 0) for code in sequence.group(1).split(";")], state)
    parts.append(span(screen[end:], state))
    return "".join(parts)


def apply(codes, state):
    """Changes the attributes as one sequence of codes asks for it."""
    while codes:
        code = codes.pop(0)
        if code == 0:
            state.clear()
        elif code in FLAGS:
            state[FLAGS[code]] = True
        elif code in FLAGS_OFF:
            for name in FLAGS_OFF[code]:
                state.pop(name, None)
        elif code in (38, 48):
            state["colour" if code == 38 else "background"] = extended_colour(codes)
        elif code == 39:
            state.pop("colour", None)
        elif code == 49:
            state.pop("background", None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            state["colour"] = PALETTE[code - 30 if code < 90 else code - 82]
        elif 40 <= code <= 47 or 100 <= code <= 107:
            state["background"] = PALETTE[code - 40 if code < 100 else code - 92]


def extended_colour(codes):
    """Takes the codes of a colour: `5;N` of 256, or `2;RED;GREEN;BLUE`."""
    if codes.pop(0) == 2:
        red, green, blue = codes[:3]
        del codes[:3]
    else:
        number = codes.pop(0)
        if number < 16:
            return PALETTE[number]
        if number < 232:
            levels = (0, 95, 135, 175, 215, 255)
            number -= 16
            red, green, blue = (levels[number // step % 6] for step in (36, 6, 1))
        else:
            red = green = blue = 8 + 10 * (number - 232)
    return f"#{red:02x}{green:02x}{blue:02x}"


def span(text, state):
    if not text:
        return ""
    text = html.escape(text)
    style = "".join(f"{name}:{value};" for name, value in styles(state))
    return f'<span style="{style}">{text}</span>' if style else text


def styles(state):
    """CSS properties for the attributes."""
    colour, background = state.get("colour"), state.get("background")
    if state.get("reverse"):
        colour, background = background or BACKGROUND, colour or FOREGROUND
    if colour:
        yield "color", colour
    if background:
        yield "background", background
    if state.get("bold"):
        yield "font-weight", "bold"
    if state.get("dim"):
        yield "opacity", "0.6"
    if state.get("italic"):
        yield "font-style", "italic"
    if state.get("underline"):
        yield "text-decoration", "underline"
    elif state.get("strike"):
        yield "text-decoration", "line-through"
