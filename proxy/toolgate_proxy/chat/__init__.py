"""One chat request, from its plan to the events of its response. Independent of API and host.

failover.py calls tool_loop.py, or what a feature responds with (features/compaction/), and that
calls engine.py: plan → grammars → backend → segment → validate. A response (response.py) has a
choice.py for each choice, which holds calls back (calls.py), and on an invalid one says where to
continue (resampling_state.py).
"""
