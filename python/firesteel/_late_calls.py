"""Calls functions that tell of what happens when the graph has run that they were called beside."""


def call(function, given):
    values, named = given
    function(*values, **named)
