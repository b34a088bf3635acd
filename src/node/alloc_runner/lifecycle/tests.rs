//! The order of tasks, as tables: a group in letters, and what is due.

use super::*;

/// Reads a group such as `pre:ended side:started main:waiting leader:failed post:waiting`.
fn group(text: &str) -> Vec<TaskFacts> {
    let task = |word: &str| {
        let (role, stage) = word.split_once(':').unwrap();
        let (hook, is_sidecar, is_leader) = match role {
            "pre" => (Some(LifecycleHook::Prestart), false, false),
            "presidecar" => (Some(LifecycleHook::Prestart), true, false),
            "main" => (None, false, false),
            "leader" => (None, false, true),
            "after" => (Some(LifecycleHook::Poststart), false, false),
            "aftersidecar" => (Some(LifecycleHook::Poststart), true, false),
            "stop" => (Some(LifecycleHook::Poststop), false, false),
            other => panic!("{other}"),
        };
        let stage_of = |stage: &str| match stage {
            "waiting" => Stage::Waiting,
            "starting" => Stage::Starting,
            "started" => Stage::Started,
            "ended" | "failed" => Stage::Ended,
            other => panic!("{other}"),
        };
        TaskFacts {
            role: TaskRole { hook, is_sidecar, is_leader },
            stage: stage_of(stage),
            has_failed: stage == "failed",
        }
    };
    text.split_whitespace().map(task).collect()
}

/// Writes steps such as `start 0 1`, `stop 2`, `over` or `nothing`.
fn shown(steps: &DueSteps) -> String {
    let list = |verb: &str, positions: Vec<usize>| {
        let numbers: Vec<_> = positions.iter().map(ToString::to_string).collect();
        (!numbers.is_empty()).then(|| format!("{verb} {}", numbers.join(" ")))
    };
    let stopped = steps.stop.iter().map(|(position, _)| *position).collect();
    let parts = [
        list("start", steps.start.clone()),
        list("stop", stopped),
        steps.is_over.then(|| "over".to_owned()),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn check(setup: SetupStage, wants_stop: bool, rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let steps = due_steps(&group(text), setup, wants_stop);
        assert_eq!(shown(&steps), *expected, "{text}");
    }
}

#[test]
fn tasks_start_in_the_order_of_their_hooks() {
    let rows = [
        ("main:waiting main:waiting", "start 0 1"),
        ("pre:waiting presidecar:waiting main:waiting after:waiting stop:waiting", "start 0 1"),
        ("pre:started presidecar:started main:waiting", "nothing"),
        ("pre:ended presidecar:starting main:waiting", "nothing"),
        ("pre:ended presidecar:started main:waiting main:waiting", "start 2 3"),
        ("main:started main:starting after:waiting", "nothing"),
        ("main:started main:started after:waiting aftersidecar:waiting", "start 2 3"),
        ("main:ended after:waiting", "start 1"),
        ("after:waiting", "start 0"),
        ("pre:ended after:waiting", "start 1"),
        ("main:started after:ended stop:waiting", "nothing"),
        ("presidecar:started stop:waiting", "nothing"),
    ];
    check(SetupStage::Ready, false, &rows);
}

#[test]
fn no_task_starts_before_all_volumes_are_mounted() {
    for setup in [SetupStage::Mounting, SetupStage::Waiting] {
        check(setup, false, &[("pre:waiting main:waiting", "nothing")]);
    }
}

#[test]
fn a_stop_ends_the_leader_first_and_sidecars_last() {
    let rows = [
        ("main:waiting stop:waiting", "over"),
        ("presidecar:started main:started leader:started", "stop 2"),
        ("presidecar:started main:started leader:ended", "stop 1"),
        ("presidecar:started main:ended leader:ended", "stop 0"),
        ("pre:started main:waiting", "stop 0"),
        ("presidecar:started main:started main:starting", "stop 1 2"),
        ("main:ended stop:waiting", "start 1"),
        ("main:ended stop:started", "nothing"),
        ("main:ended stop:ended", "over"),
        ("main:started stop:waiting", "stop 0"),
        ("pre:ended main:waiting stop:waiting", "start 2"),
    ];
    check(SetupStage::Ready, true, &rows);
}

#[test]
fn the_allocation_ends_with_its_work_its_leader_or_a_failure() {
    let rows = [
        ("main:ended", "over"),
        ("main:ended main:started", "nothing"),
        ("main:ended presidecar:started", "stop 1"),
        ("main:started leader:ended", "stop 0"),
        ("main:failed main:started presidecar:started", "stop 1"),
        ("main:failed presidecar:started stop:waiting", "stop 1"),
        ("main:failed presidecar:ended stop:waiting", "start 2"),
        ("pre:failed main:waiting", "over"),
        ("main:started after:failed", "stop 0"),
        ("main:ended stop:failed", "over"),
        ("main:ended after:started", "nothing"),
    ];
    check(SetupStage::Ready, false, &rows);
}

#[test]
fn a_failed_setup_stops_what_still_runs_and_starts_nothing() {
    let rows = [
        ("main:waiting stop:waiting", "over"),
        ("main:started stop:waiting", "stop 0"),
        ("main:ended stop:waiting", "over"),
    ];
    check(SetupStage::Failed, false, &rows);
}

/// W38: a wait for a volume never keeps an allocation that is stopped.
#[test]
fn a_stop_does_not_wait_for_volumes() {
    let rows = [
        ("main:waiting stop:waiting", "over"),
        ("main:started stop:waiting", "stop 0"),
        ("main:ended stop:waiting", "over"),
    ];
    check(SetupStage::Waiting, true, &rows);
    check(SetupStage::Mounting, true, &[("main:ended stop:waiting", "nothing")]);
}

#[test]
fn the_cause_of_the_end_names_the_failed_task() {
    for (text, wants_stop, expected) in [
        ("main:started main:failed", true, Some(EndCause::TaskFailed(1))),
        ("main:started", true, Some(EndCause::Stopped)),
        ("main:started leader:ended", false, Some(EndCause::LeaderEnded)),
        ("main:ended presidecar:started", false, Some(EndCause::WorkDone)),
        ("main:started stop:failed", false, None),
    ] {
        let cause = end_cause(&group(text), SetupStage::Ready, wants_stop);
        assert_eq!(cause, expected, "{text}");
    }
}
