"""The part of Python's reference that a topic belongs to: the value of the field `chapter`."""

OTHER = "other"

_TOPICS = {
    "statements": """assert assignment augassign break class compound continue del else for function global if
        import nonlocal pass raise return try while with simple""",
    "expressions": """attribute-references await atom-identifiers binary bitwise booleans calls comparisons
        conversions dict exprlists in lambda lists operator-summary power shifting slicings subscriptions
        truth unary yield""",
    "data-model": """async attribute-access callable-types context-managers customization numeric-types
        objects sequence-types specialattrs specialnames types""",
    "types": """bltin-code-objects bltin-ellipsis-object bltin-null-object bltin-type-objects string-methods
        typesfunctions typesmapping typesmethods typesmodules typesseq typesseq-mutable""",
    "lexical": """atom-literals floating formatstrings id-classes identifiers imaginary integers numbers
        strings""",
    "execution": "dynamic-features exceptions execmodel naming",
    "tools": "debugger",
}

CHAPTERS = (*_TOPICS, OTHER)

_CHAPTER_OF = {topic: chapter for chapter, topics in _TOPICS.items() for topic in topics.split()}


def chapter_of(topic: str) -> str:
    """The chapter; a topic that only newer Pythons have is in `other`."""
    return _CHAPTER_OF.get(topic, OTHER)
