"""edit_notebook: changing one cell of a notebook.

Purpose: the hand that replaces, inserts or deletes a cell.
Invariant: the bytes of every other cell, and of all outputs, are the same afterwards.
Must never: patch a notebook as text.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from gloveport.protocol.errors import GloveportError
from gloveport.server.edit.notebook import edit_cell
from gloveport.server.tools.changing import Change, Changing, is_kept, where
from gloveport.server.tools.contract import Arguments, ToolContext
from gloveport.server.tools.edits import WRITE_CHARACTERS_MAX
from gloveport.server.tools.files import RelativePath


class EditNotebookArguments(Arguments):
    """Arguments of edit_notebook."""

    path: RelativePath
    action: Literal["replace", "insert", "delete"] = Field(description="What is done with the cell")
    cell: int = Field(ge=1, description="Number of the cell, from 1; an inserted cell gets this number")
    cell_id: str = Field(default="", max_length=64, description="The id that the cell must have, if it is known")
    source: str = Field(default="", max_length=WRITE_CHARACTERS_MAX, description="The cell's whole new text")
    cell_type: Literal["code", "markdown", "raw"] = Field(default="code", description="Of an inserted cell")


class EditNotebook(Changing):
    """edit_notebook"""

    name = "edit_notebook"
    description = "Replace the text of one cell of a notebook (.ipynb), insert a cell, or delete one. Outputs stay."
    arguments = EditNotebookArguments

    async def changes(self, arguments: EditNotebookArguments, context: ToolContext) -> tuple[Change, ...]:
        """The notebook with one cell changed."""
        real = await context.workspace.resolve(arguments.path)
        before = await context.workspace.read(real, at=real)
        try:
            after = edit_cell(
                before,
                arguments.action,
                arguments.cell,
                path=arguments.path,
                source=arguments.source,
                cell_type=arguments.cell_type,
                cell_id=arguments.cell_id,
            )
        except GloveportError as error:
            if await is_kept(context, arguments.path, real):
                return (Change(arguments.path, real, before, before, error),)
            raise
        return (Change(arguments.path, real, before, after),)

    def title(self, arguments: EditNotebookArguments, changes: Sequence[Change]) -> str:
        """Change one cell of one path."""
        return f"{arguments.action.capitalize()} cell {arguments.cell} of {where(changes[0])}"
