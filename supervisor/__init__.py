"""A general supervisor of processes and of actors, in the manner of OTP: one pure core, two runners.

``spec`` says what is supervised, ``strategy`` (on ``machine``, ``children``, ``calls``) is one supervisor as a state
machine, ``tree`` nests them; ``requests`` and ``events`` are what goes in and out. ``processes`` runs the core's
decisions on OS processes (for ``root``), ``actor_runner`` on pykka actors of one event loop. tests/conformance runs
random scenarios through OTP 25 itself and through all three, and compares every start, end, report and answer.

What differs from OTP on purpose, always:
- ids are unique in the whole tree (they name processes and bus addresses); one used elsewhere is refused (id_taken);
- a nested supervisor is no process: nobody can kill it from outside, and where its parent kills it (brutal_kill, a
  budget that has run out) everything below it is killed at once and waited for; OTP leaves it to end by itself, so that
  a fresh incarnation may meet what is left of the old one;
- a dynamic child keeps one id over its restarts, where OTP knows a pid only; a request may name one incarnation;
- restarts within a period are told apart to the fraction of a second; OTP 25 counts whole seconds;
- slips of OTP 25 that are not copied: a dynamic child terminated by hand while it restarts stays counted as restarting
  for good, and one whose restart returns `ignore` is stored without a pid and crashes the supervisor later.
Beyond OTP, each off unless asked for (plans of root ask for them): ``eager`` (a slow start holds up neither a halt nor
the restart of an independent sibling), ``backoff``, ``slow_retry``, ``max_children``, giving up on essential children,
``Cycle``; with these on, a shutdown budget that makes a child immortal is refused.
"""
