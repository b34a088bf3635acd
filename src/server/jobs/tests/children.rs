//! Periodic and parameterized jobs: what is made from them, when, and with which values.

use super::*;
use crate::jobs::DispatchRequest;
use crate::jobs::dispatching::JobDispatched;
use crate::volumes::VolumeLimits;
use nomad_csi_model::{
    DelayFunction, JobId, Parameterized, Payload, PayloadRule, Periodic, ReschedulePolicy,
};
use nomad_csi_testing::FakeClock;

const HOUR: Duration = Duration::from_secs(3600);
/// The first second of the fake clock, which is midnight.
const MIDNIGHT: i64 = FakeClock::START / 1_000_000_000;

fn batch(id: &str) -> Job {
    let mut job = web();
    job.id = id.into();
    job.name = id.to_owned();
    job.job_type = JobType::Batch;
    job.meta = TaskEnvironment::from_iter([("color", "red"), ("size", "job")]);
    job.groups[0].tasks[0].meta = TaskEnvironment::from_iter([("size", "task")]);
    job
}

fn nightly(prohibits_overlap: bool) -> Job {
    let mut job = batch("nightly");
    job.periodic = Some(Periodic {
        crons: vec!["0 3 * * *".to_owned()],
        prohibits_overlap,
        ..Periodic::default()
    });
    job
}

fn import() -> Job {
    let mut job = batch("import");
    job.parameterized = Some(Parameterized {
        payload: PayloadRule::Optional,
        meta_required: vec!["set".to_owned()],
        meta_optional: vec!["color".to_owned(), "size".to_owned()],
    });
    job.groups[0].tasks[0].payload_file = Some("in/payload".to_owned());
    job
}

fn request(meta: &[(&str, &str)]) -> DispatchRequest {
    DispatchRequest { meta: meta.iter().copied().collect(), ..DispatchRequest::default() }
}

fn children(agent: &FakeAgent, parent: &str) -> Vec<String> {
    let key = job_key(parent);
    agent.cell.read(|state| {
        let ids = state.children_of(&key).map(|child| child.current.job.id.to_string());
        ids.collect()
    })
}

/// Waits until the launches of `nightly` up to this hour are decided.
async fn decided(agent: &FakeAgent, hour: i64) {
    let until_hour = FakeClock::START + hour * 3_600_000_000_000;
    until(agent, |state| {
        let record = state.job(&job_key("nightly")).unwrap();
        record.launched_until == Some(until_hour)
    })
    .await;
}

/// Neither a registration nor a restart runs such a job, and each time of its expression does so once.
#[tokio::test(start_paused = true)]
async fn a_periodic_job_starts_at_its_times_once() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    let written = jobs.register(nightly(false), None).await.unwrap();
    assert_eq!(written.evaluation, None);
    let again = jobs.register(nightly(false), None).await.unwrap();
    assert_eq!((again.evaluation, again.job_modify_index), (None, written.job_modify_index));
    agent.clock.advance(3 * HOUR - Duration::from_secs(1));
    let agent = agent.restart(VolumeLimits::default()).await.unwrap();
    assert_eq!(children(&agent, "nightly"), [] as [&str; 0]);
    agent.clock.advance(Duration::from_secs(1));
    decided(&agent, 3).await;
    let first = format!("nightly/periodic-{}", MIDNIGHT + 3 * 3600);
    assert_eq!(children(&agent, "nightly"), [first.as_str()]);
    let alloc = assigned_of(&agent, &first).await;
    assert_eq!(alloc.job.groups[0].tasks[0].environment.get("PASSWORD"), Some("hunter2"));
    assert_eq!(alloc.job.meta.get("color"), Some("red"));
    let agent = agent.restart(VolumeLimits::default()).await.unwrap();
    agent.clock.advance(24 * HOUR);
    decided(&agent, 27).await;
    let second = format!("nightly/periodic-{}", MIDNIGHT + 27 * 3600);
    assert_eq!(children(&agent, "nightly"), [first, second]);
    let own = agent.cell.read(|state| state.allocs_of_job(&job_key("nightly")).count());
    assert_eq!(own, 0, "the job itself runs nothing");
}

/// One launch that was missed is made for its time. Of several, one is made, at the time of the start.
#[tokio::test(start_paused = true)]
async fn launches_that_were_missed_are_one() {
    for (away, expected, until_hour) in [(4, 3, 3), (100, 100, 100)] {
        let agent = agent().await;
        agent.services.jobs.register(nightly(true), None).await.unwrap();
        agent.clock.advance(u32::try_from(away).unwrap() * HOUR);
        let agent = agent.restart(VolumeLimits::default()).await.unwrap();
        decided(&agent, until_hour).await;
        let id = format!("nightly/periodic-{}", MIDNIGHT + expected * 3600);
        assert_eq!(children(&agent, "nightly"), [id]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_beside_a_running_one_is_left_out_if_overlap_is_prohibited() {
    for prohibits_overlap in [false, true] {
        let agent = agent().await;
        let jobs = &agent.services.jobs;
        jobs.register(nightly(prohibits_overlap), None).await.unwrap();
        agent.clock.advance(3 * HOUR);
        decided(&agent, 3).await;
        let first = children(&agent, "nightly").remove(0);
        let alloc = assigned_of(&agent, &first).await.id;
        report(&agent, &alloc, ClientStatus::Running).await;
        agent.clock.advance(24 * HOUR);
        decided(&agent, 27).await;
        let expected = if prohibits_overlap { 1 } else { 2 };
        assert_eq!(children(&agent, "nightly").len(), expected);
        report(&agent, &alloc, ClientStatus::Complete).await;
        agent.clock.advance(24 * HOUR);
        decided(&agent, 51).await;
        assert_eq!(children(&agent, "nightly").len(), expected + 1);
    }
}

/// A failed task that waits for its replacement is not over.
#[tokio::test(start_paused = true)]
async fn a_launch_is_left_out_while_an_earlier_one_waits_for_its_replacement() {
    let agent = agent().await;
    let mut job = nightly(true);
    job.groups[0].reschedule = Some(ReschedulePolicy {
        attempts: 1,
        interval: 240 * HOUR,
        delay: 30 * HOUR,
        delay_function: DelayFunction::Constant,
        max_delay: Duration::ZERO,
        unlimited: false,
    });
    agent.services.jobs.register(job, None).await.unwrap();
    agent.clock.advance(3 * HOUR);
    decided(&agent, 3).await;
    let first = children(&agent, "nightly").remove(0);
    let alloc = assigned_of(&agent, &first).await.id;
    report(&agent, &alloc, ClientStatus::Failed).await;
    agent.clock.advance(24 * HOUR);
    decided(&agent, 27).await;
    assert_eq!(children(&agent, "nightly"), std::slice::from_ref(&first));
    agent.clock.advance(10 * HOUR);
    let replacement = assigned_of(&agent, &first).await.id;
    assert_ne!(replacement, alloc);
    report(&agent, &replacement, ClientStatus::Failed).await;
    agent.clock.advance(14 * HOUR);
    decided(&agent, 51).await;
    assert_eq!(children(&agent, "nightly").len(), 2);
}

/// What was decided while the clock was ahead does not hold for the time between; a job that exists is not made again.
#[tokio::test(start_paused = true)]
async fn launches_go_on_after_the_clock_was_set_back() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    jobs.register(nightly(false), None).await.unwrap();
    agent.clock.advance(3 * HOUR);
    decided(&agent, 3).await;
    agent.clock.advance(240 * HOUR);
    decided(&agent, 243).await;
    assert_eq!(children(&agent, "nightly").len(), 2);
    agent.clock.set_back(238 * HOUR);
    decided(&agent, 5).await;
    agent.clock.advance(22 * HOUR);
    decided(&agent, 27).await;
    assert_eq!(children(&agent, "nightly").len(), 3);
    // A step that passes soon is waited for.
    agent.clock.set_back(Duration::from_secs(50));
    agent.clock.advance(24 * HOUR + Duration::from_secs(50));
    decided(&agent, 51).await;
    assert_eq!(children(&agent, "nightly").len(), 4);
}

/// A job of every minute leaves room for others.
#[tokio::test(start_paused = true)]
async fn few_of_the_jobs_that_were_launched_and_are_over_are_kept() {
    let agent = agent().await;
    let mut job = nightly(false);
    let periodic = job.periodic.as_mut().unwrap();
    periodic.crons = vec!["* * * * *".to_owned()];
    agent.services.jobs.register(job, None).await.unwrap();
    let mut all = vec![];
    for minute in 1..=30 {
        agent.clock.advance(Duration::from_secs(60));
        let id = format!("nightly/periodic-{}", MIDNIGHT + minute * 60);
        let alloc = assigned_of(&agent, &id).await.id;
        // The first one runs on.
        if minute > 1 {
            report(&agent, &alloc, ClientStatus::Complete).await;
        }
        all.push(id);
    }
    let newest = &all[all.len() - 10..];
    let is_bounded = |state: &State| {
        let kept = state.children_of(&job_key("nightly"));
        kept.count() <= 13
    };
    until(&agent, is_bounded).await;
    let kept = children(&agent, "nightly");
    assert!(kept.contains(&all[0]), "{kept:?}");
    assert!(newest.iter().all(|id| kept.contains(id)), "{kept:?}");
}

/// A full disk delays a launch and does not lose it.
#[tokio::test(start_paused = true)]
async fn a_launch_that_was_not_recorded_is_made_later() {
    let agent = agent().await;
    agent.services.jobs.register(nightly(false), None).await.unwrap();
    let full = AppendFault::NotWritten(JournalErrorKind::DiskFull);
    agent.journal.fail_next([full, full]);
    agent.clock.advance(3 * HOUR);
    let clock = agent.clock.clone();
    let later = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            clock.advance(Duration::from_secs(1));
        }
    });
    decided(&agent, 3).await;
    later.abort();
    assert_eq!(agent.journal.faults_left(), 0);
    assert_eq!(children(&agent, "nightly").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_operator_launches_a_periodic_job_before_its_time() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    jobs.register(nightly(true), None).await.unwrap();
    let key = job_key("nightly");
    let forced = jobs.launch(&key).await.unwrap();
    evaluated(&agent, &forced.evaluation.unwrap()).await;
    let id = format!("nightly/periodic-{MIDNIGHT}");
    assert_eq!(children(&agent, "nightly"), [id.as_str()]);
    // Another one of the same second evaluates the same job.
    let again = jobs.launch(&key).await.unwrap();
    evaluated(&agent, &again.evaluation.unwrap()).await;
    assert_eq!(children(&agent, "nightly"), [id]);
    let mut disabled = nightly(true);
    disabled.periodic.as_mut().unwrap().is_enabled = false;
    jobs.register(disabled, None).await.unwrap();
    let refused = jobs.launch(&key).await.unwrap_err().text();
    assert!(refused.contains("can't force run non-tracked job"), "{refused}");
    jobs.register(web(), None).await.unwrap();
    for (id, expected) in
        [("web", "can't force launch non-periodic job"), ("nosuch", "job not found")]
    {
        assert_eq!(jobs.launch(&job_key(id)).await.unwrap_err().text(), expected);
    }
    agent.clock.advance(30 * HOUR);
    tokio::time::sleep(HOUR).await;
    assert_eq!(children(&agent, "nightly").len(), 1, "it is not enabled");
}

/// Values of the request replace those of the job, and not those of a task; the payload reaches the node only.
#[tokio::test(start_paused = true)]
async fn a_dispatched_job_has_the_values_of_its_request() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    let written = jobs.register(import(), None).await.unwrap();
    assert_eq!(written.evaluation, None);
    let desired = DispatchRequest {
        payload: Payload::new(b"hunter3".to_vec()),
        priority: 77,
        id_prefix: "pre".to_owned(),
        ..request(&[("set", "a"), ("color", "blue"), ("size", "request")])
    };
    let done = jobs.dispatch(&job_key("import"), &desired).await.unwrap();
    let prefix = format!("import/dispatch-pre-{MIDNIGHT}-");
    assert!(done.id.as_str().starts_with(&prefix), "{}", done.id);
    evaluated(&agent, done.evaluation.as_ref().unwrap()).await;
    let alloc = assigned_of(&agent, done.id.as_str()).await;
    let meta: Vec<_> = alloc.job.meta.expose().collect();
    assert_eq!(meta, [("color", "blue"), ("set", "a"), ("size", "request")]);
    assert_eq!(alloc.job.groups[0].tasks[0].meta.get("size"), Some("task"));
    let dispatch = alloc.job.origin.as_ref().unwrap().dispatch.as_ref().unwrap();
    assert_eq!((dispatch.payload.expose(), alloc.job.priority), (&b"hunter3"[..], 77));
    let state = format!("{:?}", agent.state().job(&job_key(done.id.as_str())));
    assert!(!state.contains("blue") && !state.contains("hunter"), "{state}");
    let own = agent.cell.read(|state| state.allocs_of_job(&job_key("import")).count());
    assert_eq!(own, 0, "the job itself runs nothing");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_dispatch_runs_once_for_its_token() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    jobs.register(import(), None).await.unwrap();
    let key = job_key("import");
    let desired =
        DispatchRequest { idempotency_token: "t1".to_owned(), ..request(&[("set", "a")]) };
    let (one, two) = tokio::join!(jobs.dispatch(&key, &desired), jobs.dispatch(&key, &desired));
    let (one, two): (JobDispatched, JobDispatched) = (one.unwrap(), two.unwrap());
    assert_eq!(one.id, two.id);
    assert_eq!([&one, &two].iter().filter(|one| one.evaluation.is_some()).count(), 1);
    let agent = agent.restart(VolumeLimits::default()).await.unwrap();
    let jobs = &agent.services.jobs;
    let again = jobs.dispatch(&key, &desired).await.unwrap();
    assert_eq!((again.id, again.evaluation), (one.id, None));
    for token in ["t2", "", ""] {
        let other = DispatchRequest { idempotency_token: token.to_owned(), ..desired.clone() };
        // The ID of a job has its second, and the first characters of an ID that is the same in tests.
        agent.clock.advance(Duration::from_secs(1));
        jobs.dispatch(&key, &other).await.unwrap();
    }
    assert_eq!(children(&agent, "import").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_job_does_not_take_runs_nothing() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    jobs.register(import(), None).await.unwrap();
    let with_rule = |payload: PayloadRule| {
        let mut job = import();
        job.id = JobId::new(payload.as_str());
        job.name = payload.to_string();
        job.parameterized.as_mut().unwrap().payload = payload;
        job
    };
    jobs.register(with_rule(PayloadRule::Required), None).await.unwrap();
    jobs.register(with_rule(PayloadRule::Forbidden), None).await.unwrap();
    jobs.register(web(), None).await.unwrap();
    jobs.register(nightly(false), None).await.unwrap();
    let set = || request(&[("set", "a")]);
    let bytes = |count: usize| DispatchRequest { payload: Payload::new(vec![0; count]), ..set() };
    for (id, desired, expected) in [
        ("import", request(&[]), "Dispatch did not provide required meta keys: [set]"),
        (
            "import",
            request(&[("set", "a"), ("bad", "1")]),
            "Dispatch request included unpermitted metadata keys: [bad]",
        ),
        ("import", bytes(16_385), "Payload exceeds maximum size; 16385 > 16384"),
        ("required", set(), "Payload is not provided but required by parameterized job"),
        ("forbidden", bytes(1), "Payload provided but forbidden by parameterized job"),
        (
            "import",
            DispatchRequest { priority: 101, ..set() },
            "dispatch job priority must be between [1, 100]",
        ),
        ("web", set(), "Specified job \"web\" is not a parameterized job"),
        ("nightly", set(), "Specified job \"nightly\" is not a parameterized job"),
        ("nosuch", set(), "parameterized job not found"),
    ] {
        let refused = jobs.dispatch(&job_key(id), &desired).await.unwrap_err();
        assert_eq!(refused.text(), expected, "{id}");
    }
    let spaced = DispatchRequest { id_prefix: "a b".to_owned(), ..set() };
    let refused = jobs.dispatch(&job_key("import"), &spaced).await.unwrap_err();
    assert!(refused.text().contains("Job ID contains a space"), "{refused:?}");
    for id in ["import", "required", "forbidden"] {
        assert_eq!(children(&agent, id), [] as [&str; 0]);
    }
    jobs.dispatch(&job_key("import"), &bytes(16_384)).await.unwrap();
}

/// A job stays what it is, its stop stops nothing that was made from it, and it stays on record until then.
#[tokio::test(start_paused = true)]
async fn a_job_that_others_are_made_from_lives_apart_from_them() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    jobs.register(import(), None).await.unwrap();
    jobs.register(nightly(false), None).await.unwrap();
    let (import_key, nightly_key) = (job_key("import"), job_key("nightly"));
    for (key, expected) in [
        (&import_key, "can't evaluate parameterized job"),
        (&nightly_key, "can't evaluate periodic job"),
    ] {
        assert_eq!(jobs.evaluate(key).await.unwrap_err().text(), expected);
    }
    for (job, expected) in [
        (batch("import"), "cannot update parameterized job to being non-parameterized"),
        (batch("nightly"), "cannot update periodic job to being non-periodic"),
    ] {
        let refused = jobs.plan(&job).unwrap_err();
        assert_eq!(refused.text(), expected);
        let command = format!("nomad-csi job stop {} --namespace default --purge", job.id);
        assert!(refused.help()[0].contains(&command), "{:?}", refused.help());
        assert_eq!(jobs.register(job, None).await.unwrap_err().text(), expected);
    }
    let set = request(&[("set", "a")]);
    let child = jobs.dispatch(&import_key, &set).await.unwrap().id;
    let alloc = assigned_of(&agent, child.as_str()).await.id;
    report(&agent, &alloc, ClientStatus::Running).await;
    // Jobs that are over are forgotten after a day.
    agent.clock.advance(2 * HOUR);
    for _ in 0..3 {
        agent.clock.advance(24 * HOUR);
        tokio::time::sleep(HOUR).await;
    }
    assert!(jobs.job(&import_key).is_ok() && jobs.job(&nightly_key).is_ok());
    let stopped = jobs.stop(&import_key, false).await.unwrap();
    assert_eq!(stopped.evaluation, None);
    let refused = jobs.dispatch(&import_key, &set).await.unwrap_err();
    assert_eq!(refused.text(), "Specified job \"import\" is stopped");
    jobs.stop(&import_key, true).await.unwrap();
    tokio::time::sleep(HOUR).await;
    assert!(jobs.job(&import_key).is_err());
    assert!(!assigned_of(&agent, child.as_str()).await.wants_stop);
    jobs.stop(&JobKey::new(import_key.namespace, child.clone()), false).await.unwrap();
    until_stopping(&agent, &alloc).await;
}
