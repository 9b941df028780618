"""`pulumi import`: what exists already becomes part of a stack."""

from collections.abc import Callable

from tests.provider.support import LocalCloudflare, Project

OWNER = "cfrag:shop/import"


def test_an_index_and_its_metadata_index_are_imported(
    new_project: Callable[[str], Project], cloudflare: LocalCloudflare
) -> None:
    name = cloudflare.index("import-768-g1", description=f"{OWNER}/g1", vectors=2)
    cloudflare.client.vectorize.indexes.metadata_index.create(
        name, account_id=cloudflare.account, property_name="tags", index_type="string"
    )
    project = new_project("import")
    project.want([])
    arguments = ("--generate-code=false", "--yes", "--protect=false", "--skip-preview")
    project.run("import", "cfrag:index:VectorizeIndex", "index-g1", name, *arguments)
    project.run("import", "cfrag:index:VectorizeMetadataIndex", "g1-tags", f"{name}/tags", *arguments)

    output = project.run(
        "import", "cfrag:index:VectorizeIndex", "ghost", "no-such-index", *arguments, fails=True
    )
    assert "no-such-index" in output
    assert not [
        each for each in project.export()["deployment"]["resources"] if each["urn"].endswith("::ghost")
    ]

    common = {"dims": 768, "metric": "cosine", "generation": 1, "owner": OWNER}
    index = {"kind": "VectorizeIndex", "name": "index-g1", "args": common | {"name": name}}
    tags = {"index": name, "property_name": "tags", "index_type": "string"}
    project.want([index, {"kind": "VectorizeMetadataIndex", "name": "g1-tags", "args": tags}])
    project.preview("--expect-no-changes")

    # Gone from the program, an index with vectors is still not deleted.
    project.want([])
    output = project.up(fails=True)
    assert "index import-768-g1 holds 2 vectors and is protected" in output
    project.up(CFRAG_DELETE_INDEX=name)
    assert not [each for each in project.export()["deployment"].get("resources", ()) if each.get("custom")]
