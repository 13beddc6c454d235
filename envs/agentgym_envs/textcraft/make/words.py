"""The big book's words: what is found, what forms it takes at each depth, and how things are finished. All names are our own."""

from __future__ import annotations

KINDS: dict[str, tuple[str, ...]] = {
    "wood": ("alder", "hazel", "elm", "osier", "withy", "rowan", "yew", "linden", "hornbeam"),
    "fibre": ("flax", "hemp", "rush", "ramie", "jute", "sisal", "bast", "teasel"),
    "earth": ("marl", "loam", "chalk", "gault", "tufa", "shale", "ochre", "umber", "sienna"),
    "metal": ("tin", "zinc", "pewter", "bismuth", "cobalt", "galena", "hematite", "cinnabar", "pyrite", "antimony"),
    "resin": ("resin", "tallow", "pitch", "amber", "lac", "mastic", "beeswax", "lanolin"),
    "salt": ("soot", "ash", "potash", "natron", "alum", "borax", "vitriol"),
    "animal": ("fleece", "pelt", "horn", "sinew", "baleen", "bristle", "plume", "down", "shagreen", "tusk"),
    "petal": ("madder", "woad", "weld", "safflower", "saffron", "orchil", "sumac", "gallnut"),
    "grain": ("barley", "rye", "oats", "millet", "spelt", "hops"),
    "fruit": ("quince", "damson", "medlar", "sloe", "bilberry"),
    "spice": ("clove", "cumin", "fennel", "mustard"),
    "liquid": ("water", "brine", "vinegar", "whey"),
    "gem": ("cowrie", "nacre", "jet", "onyx", "agate", "beryl"),
}
"""Found items of one word, 94 in all."""

PLACES = ("river", "hill", "fen", "moor", "shore", "winter")
GROWTHS = ("moss", "reed", "silt", "thistle", "sage", "heather", "bark")
"""Found items of two words are a place and a growth."""

FORMS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "wood": (("board", "batten", "peg"), ("crate", "frame", "rack", "shutter", "spoon"), ("chest", "bench", "barrow", "cradle")),
    "fibre": (("cord", "mesh", "wick"), ("net", "mat", "sling", "awning"), ("hammock", "pavilion", "sail")),
    "earth": (("tile", "slip", "pipe"), ("urn", "basin", "brazier", "trough"), ("fountain", "hearth")),
    "metal": (("wire", "plate", "nail"), ("hook", "hinge", "grate", "bracket", "ladle"), ("lantern", "balance", "chime", "winch")),
    "resin": (("cake", "bead"), ("candle", "taper", "seal"), ("chandelier",)),
    "salt": (("powder", "wash"), ("polish", "flux"), ("still",)),
    "animal": (("strip", "thong"), ("pouch", "brush", "strap"), ("bellows", "harness")),
    "petal": (("paste", "tint"), ("ink", "stain"), ("scroll",)),
    "grain": (("meal", "malt"), ("loaf", "porridge"), ("hamper",)),
    "fruit": (("jelly", "cordial"), ("tart", "preserve"), ("banquet",)),
    "spice": (("oil",), ("balm",), ("censer",)),
    "gem": (("chip",), ("brooch", "lens"), ("diadem",)),
}
"""What a kind becomes at depth 1, 2 and 3."""

SINGLE = {
    "felt": "fleece", "vellum": "pelt", "ink": "soot", "glue": "horn", "soap": "tallow", "lye": "ash", "putty": "chalk",
    "gesso": "gault", "varnish": "mastic", "twine": "hemp", "oakum": "jute", "mortar": "tufa", "parchment": "shagreen",
}  # fmt: skip
"""Made items of one word and depth 1, and what each is made of."""

FINISHES = {
    "tarred": ("pitch", "pitch cake"), "waxed": ("beeswax", "beeswax cake"), "limed": ("chalk", "chalk slip"), "sooty": ("soot", "soot wash"),
    "oiled": ("clove oil", "clove balm"), "glued": ("glue", "glue"), "gilt": ("pyrite", "pyrite plate"),
    "crimson": ("madder paste", "madder stain"), "azure": ("woad paste", "woad stain"), "golden": ("weld paste", "weld stain"),
    "rosy": ("safflower paste", "safflower stain"), "flaxen": ("saffron paste", "saffron stain"), "violet": ("orchil paste", "orchil stain"),
    "russet": ("sumac paste", "sumac stain"), "dusky": ("gallnut paste", "gallnut stain"),
}  # fmt: skip
"""Words for finished things, and the agents that finish them: at depth 2, and deeper."""

TONES = ("pale", "deep", "bright", "faded")
SIZES = ("broad", "slender", "tall")

TAGS: dict[str, tuple[str, ...]] = {
    "woods": KINDS["wood"],
    "fibres": KINDS["fibre"],
    "earths": KINDS["earth"],
    "metals": KINDS["metal"],
    "salts": KINDS["salt"],
    "grains": KINDS["grain"],
    "fruits": KINDS["fruit"],
    "spices": KINDS["spice"],
    "liquids": KINDS["liquid"],
    "gems": KINDS["gem"],
    "skins": ("pelt", "shagreen", "fleece"),
    "waxes": ("beeswax", "tallow"),
    "glues": ("glue", "putty"),
    "soaps": ("soap",),
    "oils": tuple(f"{spice} oil" for spice in KINDS["spice"]),
    "colours": tuple(f"{petal} {form}" for petal in KINDS["petal"] for form in ("paste", "tint")),
    "boards": tuple(f"{wood} board" for wood in KINDS["wood"]),
    "battens": tuple(f"{wood} batten" for wood in KINDS["wood"][:5]),
    "cords": tuple(f"{fibre} cord" for fibre in KINDS["fibre"]),
    "tiles": tuple(f"{earth} tile" for earth in KINDS["earth"][:6]),
    "wires": tuple(f"{metal} wire" for metal in KINDS["metal"][:4]),
    "nails": tuple(f"{metal} nail" for metal in KINDS["metal"]),
    "beads": tuple(f"{resin} bead" for resin in KINDS["resin"][:3]),
}
"""23 tags of 1 to 16 members."""
