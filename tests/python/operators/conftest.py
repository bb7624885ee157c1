"""Every replay here also compares each operator's real layout with the one its shape rule gave."""

import os

os.environ["FIRESTEEL_CHECK_SHAPES"] = "1"
