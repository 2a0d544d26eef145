"""Operating: what a person looks up and does about single events, and about many.

`claims` and `inbox` are the verbs. An event is meant by its id, by a request that carries it, or by
its key (`meant`); the store is asked by a session of the command's own (`ending`); the story of an
event is told in `story`, many of them in `listing`, and done to many in `bulk`.
"""
