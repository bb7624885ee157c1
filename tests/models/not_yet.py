"""Rows not captured whole yet, each with the id of the reason.

Written by `python tests/models/survey.py --write`.
A key is the name of a row, `name:mode` or `name:mode:backend` where only these stop, or stop for another reason.
"""

NOT_YET = {
    "longformer": "FS-DATA-DEPENDENT",
    "switch-transformers": "FS-DATA-DEPENDENT",
    "led": "FS-DATA-DEPENDENT",
    "prophetnet": "FS-DATA-DEPENDENT",
    "encodec": "FS-DATA-DEPENDENT",
    "detr:train": "FS-DATA-DEPENDENT",
    "conditional-detr:train": "FS-DATA-DEPENDENT",
    "groupvit:train": "FS-DATA-DEPENDENT",
    "vilt": "FS-DATA-DEPENDENT",
}
