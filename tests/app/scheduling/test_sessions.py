from app.scheduling import KEPT_RUNS, MOST_SESSIONS, AdmissionQueue, LiveRun, Sessions


def begin(sessions: Sessions, queue: AdmissionQueue, session: str) -> LiveRun:
    run = LiveRun(queue.join(), 0.95)
    sessions.begin(session, run)
    return run


def test_stop_ends_all_lanes_and_frees_the_place() -> None:
    sessions, queue = Sessions(), AdmissionQueue(places=1)
    run, waiting = begin(sessions, queue, "me"), queue.join()
    lanes = [run.control(None, follows=True), run.control(None)]
    sessions.stop("me")
    assert run.stopped
    assert all(lane.stopped for lane in lanes)
    assert run.control(None, follows=True).stopped
    assert waiting.position == 0


def test_a_flood_of_sessions_pushes_out_its_own() -> None:
    sessions, run = Sessions(), object()
    sessions.keep("honest", "10.0.0.2", run)
    for number in range(2 * MOST_SESSIONS):
        sessions.keep(f"s{number}", "10.0.0.1", run)
    assert sessions.finished("honest") == [run]
    assert sessions.finished("s0") == []
    assert len(sessions._finished) == MOST_SESSIONS


def test_a_session_keeps_its_last_runs() -> None:
    sessions = Sessions()
    for number in range(KEPT_RUNS + 3):
        sessions.keep("me", "10.0.0.1", number)
    assert sessions.finished("me") == list(range(3, KEPT_RUNS + 3))
    assert sessions.finished("you") == []


def test_resting_ends_at_once_when_stopped() -> None:
    run = LiveRun(AdmissionQueue().join(), None)
    run.stop()
    run.rest(3600)
