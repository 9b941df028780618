"""From a RagConfig to a Worker bundle: rendered, vendored, stored, or written out as a project."""

from infra.bundle.build import Renderings, render, shown_size
from infra.bundle.manifest import Bundle, Module
from infra.bundle.project import render_project, write_project

__all__ = ["Bundle", "Module", "Renderings", "render", "render_project", "shown_size", "write_project"]
