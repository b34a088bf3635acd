//! 500 allocations on 500 volumes: how long it takes, what it costs, and that no call is made twice.
//!
//! Run it alone, in a release build: `cargo test --release --test e2e jobs_many -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::hostpath_fixture::run_in_namespace;
use crate::job_machine::{Machine, WRITER, volume};
use crate::wait::until_within;
use nomad_csi_testing::namespace::mounts;

const ALLOCS: usize = 500;
/// How long the idle agent is watched.
const IDLE: Duration = Duration::from_secs(20);
/// The calls of one claim: attach, stage, publish, and the way back.
const CALLS: [&str; 6] = [
    "ControllerPublishVolume",
    "NodeStageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeUnstageVolume",
    "ControllerUnpublishVolume",
];
const LIMIT: Duration = Duration::from_secs(600);

/// The processor time of a process in clock ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// The resident memory of a process in MiB.
fn memory(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib >> 10
}

fn count(machine: &Machine, part: &str) -> usize {
    let all = mounts();
    let data = machine.data();
    let below = all.iter().filter(|path| path.starts_with(data.to_str().unwrap()));
    below.filter(|path| path.contains(part)).count()
}

fn wait_for(machine: &Machine, what: &str, done: impl Fn(&Machine) -> bool) -> Duration {
    let begun = Instant::now();
    until_within(LIMIT, what, || match done(machine) {
        true => Ok(()),
        false => Err("not yet".to_owned()),
    });
    begun.elapsed()
}

fn has_status(machine: &Machine, status: &str) -> bool {
    let allocs = machine.allocs("many");
    let found = allocs.iter().filter(|alloc| alloc["ClientStatus"] == status);
    found.count() == ALLOCS
}

#[test]
#[ignore = "a benchmark: takes minutes"]
fn five_hundred_allocations_use_five_hundred_volumes() {
    let test = "jobs_many::five_hundred_allocations_use_five_hundred_volumes";
    run_in_namespace(test, async {
        let machine = Machine::new();
        for index in 0..ALLOCS {
            machine.create_volume(&format!("many[{index}]"), WRITER, "file-system");
        }
        let pid = machine.agent().pid();
        let before = memory(pid);
        let mut many = volume("many", WRITER);
        many["PerAlloc"] = json!(true);
        many["Count"] = json!(ALLOCS);
        let job = machine.job("many", "service", &many, "exec sleep 3600");
        machine.run(&job);
        let up = wait_for(&machine, "all to run", |machine| has_status(machine, "running"));
        assert_eq!((count(&machine, "/staging/"), count(&machine, "/targets/")), (ALLOCS, ALLOCS));
        let used = memory(pid);
        let idle_from = ticks(pid);
        let watched = Instant::now();
        wait_for(&machine, "the idle time to pass", |_| watched.elapsed() >= IDLE);
        let idle = ticks(pid) - idle_from;
        let begun = Instant::now();
        machine.stop("many");
        wait_for(&machine, "all to end", |machine| has_status(machine, "complete"));
        wait_for(&machine, "all claims to be gone", |machine| machine.claims().is_empty());
        let down = begun.elapsed();
        // One answered call for each volume is the minimum.
        let log = machine.agent().log();
        let calls = |sign: &str, rpc: &str| {
            let lines = log.iter().filter(|line| line.contains(sign));
            lines.filter(|line| line.contains(rpc)).count()
        };
        let done = CALLS.map(|rpc| calls("a step is done", rpc));
        let failed = CALLS.map(|rpc| calls("a step of a claim failed", rpc));
        // Hundredths of a percent of a core, from ticks of 10 ms.
        let idle = idle * 100 / IDLE.as_secs();
        let (percent, hundredths) = (idle / 100, idle % 100);
        eprintln!(
            "{ALLOCS} allocations: running after {up:.1?}, gone after {down:.1?}; memory {before} MiB before, \
             {used} MiB with all; idle {percent}.{hundredths:02} % of a core; calls {done:?}, failed {failed:?}"
        );
        assert_eq!((done, failed), ([ALLOCS; 6], [0; 6]));
        machine.end();
    });
}
