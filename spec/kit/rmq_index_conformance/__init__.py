"""The conformance kit of the RocketMQ index specification; the standard library is all it needs.

``rmq-index-conformance --help`` says how to run it, ``spec/conformance-kit.md`` what a program
answers.
"""
