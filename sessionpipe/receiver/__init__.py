"""A receiver for one's own machine: what the hooks told, kept in SQLite and shown on a page.

::

    POST events ─► incoming ─► store ─► board (fold: what a session does) ─► page
                   validate    SQLite   merge (its session block)            live: "look again"

* :mod:`~sessionpipe.receiver.incoming`: a batch as the protocol wants it. Pure.
* :mod:`~sessionpipe.receiver.merge`: a session block from many (protocol §3). Pure.
* :mod:`~sessionpipe.receiver.board`: what a session's events come to, and how it stands now. Pure.
* :mod:`~sessionpipe.receiver.timeline`: a session's events as turns. Pure.
* :mod:`~sessionpipe.receiver.store`: the database; the only module with SQL.
* :mod:`~sessionpipe.receiver.keys`: the token, and what is derived from it.
* :mod:`~sessionpipe.receiver.live`: telling open pages that something changed.
* :mod:`~sessionpipe.receiver.page`: sessions as HTML.
* :mod:`~sessionpipe.receiver.bodies`: what a request carries, bounded, and its signature.
* :mod:`~sessionpipe.receiver.guard`: what holds for every request and every answer.
* :mod:`~sessionpipe.receiver.app`: the routes.
* :mod:`~sessionpipe.receiver.serve`: the socket, the signals, the server.
"""
