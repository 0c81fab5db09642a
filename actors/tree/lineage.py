"""Who is whose child: conversations appear, learn their parents late, and are forgotten when there are too many.

The first parent that an event names stands; a later other one, a conversation as its own ancestor, and a chain
beyond ``MAX_DEPTH`` are ignored and counted. A parent nobody heard of is a placeholder below the root.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.knobs import Progress
from actors.messages import ProgressEvent, Reason
from actors.tree.state import MAX_CONVERSATIONS, Conversation, TreeState
from actors.tree.verdicts import Run, clear, retire
from actors.tree.window import Window

__all__ = ["MAX_DEPTH", "absorb", "appear", "arrive", "crowd_out", "touch"]

MAX_DEPTH = 32


def arrive(run: Run, event: ProgressEvent) -> Conversation:
    """Return the event's conversation, created and linked as far as the event tells."""
    conversation = run.tree.conversations.get(event.session_id)
    if conversation is None:
        conversation = appear(run.tree, event.session_id, run.knobs)
        crowd_out(run, conversation)
    conversation.placeholder = False
    if event.agent is not None:
        conversation.agent = event.agent
    named = event.parent_session_id
    if named is not None and (conversation.assumed or named != conversation.parent):
        _link(run, conversation, named)
    return conversation


def appear(tree: TreeState, name: str, knobs: Progress) -> Conversation:
    """Create a conversation below the root, and the root before it."""
    if name != tree.id and tree.id not in tree.conversations:
        appear(tree, tree.id, knobs)
    parent = None if name == tree.id else tree.id
    window = Window(knobs.window, knobs.novelty_calls)
    conversation = Conversation(id=name, parent=parent, window=window, alive_at=tree.now)
    tree.conversations[name] = conversation
    if parent is not None:
        tree.conversations[parent].children += 1
    if tree.oldest_alive is None:
        tree.oldest_alive = tree.now
    return conversation


def touch(tree: TreeState, lineage: Iterable[Conversation]) -> None:
    """Note that a conversation is alive, and with it its ancestors, who may be waiting for it."""
    for one in lineage:
        one.alive_at = tree.now
        one.retired = False
    if tree.oldest_alive is None:
        tree.oldest_alive = tree.now


def absorb(run: Run, ancestor: Conversation, child: Conversation) -> None:
    """Count a child that turned up late for one ancestor (P033).

    What the child did before its last landing belongs to nobody; if that is newer than the ancestor's, it is the
    ancestor's too. The ancestor's own turns since then cannot be told apart and go in its favour.
    """
    if child.reset_at > ancestor.reset_at:
        clear(run, ancestor, Reason.MERGED)
        ancestor.reset_at = child.reset_at
    ancestor.turns_since += child.turns_since
    ancestor.usd_since += child.usd_since
    ancestor.alive_at = max(ancestor.alive_at, child.alive_at)


def crowd_out(run: Run, newest: Conversation) -> None:
    """Forget leaves while there are too many conversations: retired ones first, then the longest quiet."""
    known = run.tree.conversations
    while len(known) > MAX_CONVERSATIONS:
        spared = (newest.id, run.tree.id)
        leaves = [one for one in known.values() if not one.children and one.id not in spared]
        if not leaves:
            return
        leaf = min(leaves, key=lambda one: (not one.retired, one.alive_at))
        retire(run, leaf)
        del known[leaf.id]
        run.tree.forgotten += 1
        if leaf.parent in known:
            known[leaf.parent].children -= 1


def _link(run: Run, child: Conversation, named: str) -> None:
    tree = run.tree
    if not child.assumed or child.id in (named, tree.id):
        tree.ignored_links += 1
        return
    parent = tree.conversations.get(named) or appear(tree, named, run.knobs)
    above = list(tree.lineage(parent))
    if len(above) > MAX_DEPTH or child in above:
        tree.ignored_links += 1
        return
    child.assumed = False
    if parent.id != child.parent:
        _move(run, child, above)


def _move(run: Run, child: Conversation, above: list[Conversation]) -> None:
    """Hang ``child`` below ``above[0]``; ancestors that had it before have counted it already."""
    counted = {one.id for one in run.tree.lineage(child)}
    if child.parent is not None:
        run.tree.conversations[child.parent].children -= 1
    child.parent = above[0].id
    above[0].children += 1
    for one in above:
        if one.id not in counted:
            absorb(run, one, child)
