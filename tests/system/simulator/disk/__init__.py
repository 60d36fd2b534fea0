"""The disk of the simulator: every call that changes files is recorded, and power cuts after any.

``recorded`` hears the calls of this process, and lets each fail or wait; ``power`` knows what a
disk may hold once the power was cut after one of them.
"""
