"""A paused run of the lead's computation may be dropped anywhere."""

import gc
import threading

from federated_data import plan_of, site_tables

from steropes.backends import blas_threads
from steropes.federated.resumable_lead_program import LeadProgram


def test_a_program_is_collected_while_a_lock_that_its_thread_needs_is_held():
    held = []

    def drop():
        program = LeadProgram(plan_of("logistic", site_tables("logistic")))
        program.itself = program  # only the garbage collector can end it
        with blas_threads._blas._lock:
            del program
            gc.collect()
            held.append(True)

    thread = threading.Thread(target=drop, daemon=True)
    thread.start()
    thread.join(60)
    assert held
    assert not thread.is_alive()
