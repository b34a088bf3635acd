//! Jobs on a real agent with real volumes: written, killed, restarted, stopped, read again.
//!
//! At the end of each test nothing is left: no mount, no device, no process and no claim; the data is there.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agent_process::{
    AgentProcess, PROGRAM, processes_with, program, runtime_directory, signal_process,
};
use crate::hostpath_fixture::{run_in_namespace, run_in_namespace_with_devices};
use crate::job_machine::{Machine, WRITER, volume};
use crate::random::Random;
use crate::wait::{spin, until, until_true};
use nomad_csi_testing::namespace::{has_all_users, mounts};

/// A user that owns nothing here.
const STRANGER: u32 = 65_534;
const SHARED: &str = "multi-node-multi-writer";

/// The calls of a claim, in their order.
const RPCS: [&str; 6] = [
    "ControllerPublishVolume",
    "NodeStageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeUnstageVolume",
    "ControllerUnpublishVolume",
];

#[test]
fn a_job_survives_a_killed_agent_and_another_reads_what_it_wrote() {
    let test = "jobs::a_job_survives_a_killed_agent_and_another_reads_what_it_wrote";
    run_in_namespace(test, async {
        let mut machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        let script = "echo written > /data/file; echo ready; sleep 600";
        machine.run(&machine.job("writer", "service", &volume("data", WRITER), script));
        let alloc = machine.wait_for("writer", "running", 1).remove(0);
        until_true("the task to write", || machine.output(&alloc) == "ready\n");
        // A shell that starts `sleep` is two processes with its command line for a moment.
        let before = until("one process", || match machine.tasks() {
            one if one.len() == 1 => Ok(one),
            others => Err(format!("{others:?}")),
        });
        let mounted = mounts();
        machine.kill();
        assert_eq!(machine.tasks(), before, "the agent took its tasks along");
        machine.start();
        let again = machine.wait_for("writer", "running", 1).remove(0);
        assert_eq!(again["ID"], alloc["ID"]);
        assert_eq!(machine.tasks(), before, "the task was started again");
        assert_eq!(mounts(), mounted);
        machine.stop("writer");
        machine.wait_for("writer", "complete", 1);
        machine.assert_clean();
        machine.run(&machine.job("reader", "batch", &volume("data", WRITER), "cat /data/file"));
        let reader = machine.wait_for("reader", "complete", 1).remove(0);
        assert_eq!(machine.output(&reader), "written\n");
        machine.end();
    });
}

#[test]
fn every_allocation_has_its_own_volume() {
    let test = "jobs::every_allocation_has_its_own_volume";
    run_in_namespace(test, async {
        let machine = Machine::new();
        for index in 0..3 {
            machine.create_volume(&format!("own[{index}]"), WRITER, "file-system");
        }
        let mut own = volume("own", WRITER);
        own["PerAlloc"] = json!(true);
        own["Count"] = json!(3);
        let script = "echo $NOMAD_ALLOC_INDEX >> /data/index; cat /data/index";
        machine.run(&machine.job("own", "batch", &own, script));
        let mut outputs: Vec<_> = machine
            .wait_for("own", "complete", 3)
            .iter()
            .map(|alloc| machine.output(alloc))
            .collect();
        outputs.sort_unstable();
        assert_eq!(outputs, ["0\n", "1\n", "2\n"]);
        machine.end();
    });
}

#[test]
fn two_jobs_share_a_volume_with_one_staging() {
    let test = "jobs::two_jobs_share_a_volume_with_one_staging";
    run_in_namespace(test, async {
        let machine = Machine::new();
        machine.create_volume("shared", SHARED, "file-system");
        for id in ["one", "two"] {
            let script = format!("echo {id} >> /data/names; sleep 600");
            machine.run(&machine.job(id, "service", &volume("shared", SHARED), &script));
            machine.wait_for(id, "running", 1);
        }
        let count = |part: &str| {
            let data = machine.data();
            let below = |mounted: &&String| Path::new(mounted).starts_with(&data);
            let all = mounts();
            all.iter().filter(below).filter(|path| path.contains(part)).count()
        };
        assert_eq!((count("/staging/"), count("/targets/")), (1, 2));
        machine.stop("one");
        machine.wait_for("one", "complete", 1);
        until_true("the first target to be gone", || count("/targets/") == 1);
        assert_eq!(count("/staging/"), 1, "the other job still uses it");
        machine.stop("two");
        machine.wait_for("two", "complete", 1);
        let script = "sort /data/names | tr '\\n' ' '";
        machine.assert_clean();
        machine.run(&machine.job("reader", "batch", &volume("shared", SHARED), script));
        let reader = machine.wait_for("reader", "complete", 1).remove(0);
        assert_eq!(machine.output(&reader), "one two ");
        machine.end();
    });
}

#[test]
fn a_read_only_volume_refuses_writes() {
    let test = "jobs::a_read_only_volume_refuses_writes";
    run_in_namespace(test, async {
        let machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        let mut read_only = volume("data", WRITER);
        read_only["ReadOnly"] = json!(true);
        let script = "touch /data/file 2>/dev/null && echo written || echo refused";
        machine.run(&machine.job("reader", "batch", &read_only, script));
        let reader = machine.wait_for("reader", "complete", 1).remove(0);
        assert_eq!(machine.output(&reader), "refused\n");
        machine.end();
    });
}

#[test]
fn a_block_volume_is_a_device_in_the_task() {
    let test = "jobs::a_block_volume_is_a_device_in_the_task";
    run_in_namespace_with_devices(test, async {
        let machine = Machine::with_options(["--allow-root-tasks"]);
        machine.create_volume("disk", WRITER, "block-device");
        let mut disk = volume("disk", WRITER);
        disk["AttachmentMode"] = json!("block-device");
        let script = "test -b /data && echo kept | dd of=/data bs=512 conv=notrunc 2>/dev/null; \
                      dd if=/data bs=5 count=1 2>/dev/null";
        for _ in 0..2 {
            let mut job = machine.job("disk", "batch", &disk, script);
            // A device node of the host belongs to root.
            job["TaskGroups"][0]["Tasks"][0]["User"] = json!("root");
            machine.run(&job);
            let done = machine.wait_for("disk", "complete", 1).remove(0);
            assert_eq!(machine.output(&done), "kept\n");
            let purge = "/v1/job/disk?purge=true";
            machine.address().ask("DELETE", purge, None).unwrap().json();
            until_true("the job to be forgotten", || machine.allocs("disk").is_empty());
        }
        machine.end();
    });
}

/// The agent dies while each call of a claim is under way, before its work and after it. The next one completes what
/// was begun: a job runs exactly one task, and gives its volume back.
#[test]
fn an_agent_killed_at_every_step_of_a_job_completes_it() {
    let test = "jobs::an_agent_killed_at_every_step_of_a_job_completes_it";
    run_in_namespace(test, async {
        let mut machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        machine.kill();
        let mut random = Random(7);
        for (at, rpc) in RPCS.iter().enumerate() {
            for fault in ["delay=5s", "lose-reply"] {
                let undoes = at >= RPCS.len() / 2;
                let id = format!("job-{at}-{}", &fault[..4]);
                let script = format!("echo {id} >> /data/jobs; echo ready; sleep 600");
                let job = machine.job(&id, "service", &volume("data", WRITER), &script);
                if undoes {
                    machine.start();
                    machine.run(&job);
                    let alloc = machine.wait_for(&id, "running", 1).remove(0);
                    until_true("the task to write", || machine.output(&alloc) == "ready\n");
                    machine.kill();
                }
                machine.start_with(["--plugin-fault", &format!("{rpc}:{fault}")]);
                if undoes {
                    machine.stop(&id);
                } else {
                    machine.run(&job);
                }
                let says = |sign: &'static str| {
                    move |line: &str| line.contains(sign) && line.contains(rpc)
                };
                let agent = machine.agent();
                match fault {
                    "lose-reply" => {
                        agent.wait_for_lines(1, says("a step of a claim failed and is repeated"));
                    }
                    _ => agent.wait_for_plugin_lines(1, says("injecting a fault")),
                }
                spin(std::time::Duration::from_micros(random.below(20_000)));
                machine.kill();
                machine.start();
                if !undoes {
                    let alloc = machine.wait_for(&id, "running", 1).remove(0);
                    until_true("the task to write", || machine.output(&alloc) == "ready\n");
                    machine.stop(&id);
                }
                machine.wait_for(&id, "complete", 1);
                machine.assert_clean();
                machine.kill();
            }
        }
        machine.start();
        machine.run(&machine.job("reader", "batch", &volume("data", WRITER), "wc -l < /data/jobs"));
        let reader = machine.wait_for("reader", "complete", 1).remove(0);
        assert_eq!(machine.output(&reader), "12\n", "each job wrote once");
        machine.end();
    });
}

/// The plugin dies under a running job; the volume stays usable, and is given back by the next process.
#[test]
fn a_killed_plugin_costs_no_job_its_volume() {
    let test = "jobs::a_killed_plugin_costs_no_job_its_volume";
    run_in_namespace(test, async {
        let machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        let script = "while :; do echo line >> /data/lines || exit 1; sleep 0.05; done";
        machine.run(&machine.job("writer", "service", &volume("data", WRITER), script));
        machine.wait_for("writer", "running", 1);
        let text = machine.data().to_string_lossy().into_owned();
        let [plugin] = processes_with(&["plugin", "serve", &text])[..] else {
            panic!("there is no plugin, or several");
        };
        signal_process(plugin, Signal::KILL);
        until("another plugin", || crate::volumes::is_healthy(machine.address()));
        let alloc = machine.wait_for("writer", "running", 1).remove(0);
        assert_eq!(alloc["TaskStates"]["t"]["Restarts"], 0);
        machine.stop("writer");
        machine.wait_for("writer", "complete", 1);
        machine.end();
    });
}

/// The wait for a volume is shown, and ends with the volume.
#[test]
fn a_job_waits_for_its_volume_and_says_so() {
    let test = "jobs::a_job_waits_for_its_volume_and_says_so";
    run_in_namespace(test, async {
        let machine = Machine::new();
        let script = "echo started; sleep 600";
        machine.run(&machine.job("early", "service", &volume("late", WRITER), script));
        let evaluations = until("a blocked evaluation", || {
            let all = machine.get("/v1/job/early/evaluations");
            let all = all.as_array().unwrap().clone();
            let is_blocked = |one: &Value| one["Status"] == "blocked";
            match all.iter().any(is_blocked) {
                true => Ok(all),
                false => Err(format!("{all:?}")),
            }
        });
        let text = serde_json::to_string(&evaluations).unwrap();
        assert!(text.contains("missing CSI volume(s) late"), "{text}");
        machine.create_volume("late", WRITER, "file-system");
        machine.wait_for("early", "running", 1);
        machine.stop("early");
        machine.wait_for("early", "complete", 1);
        machine.end();
    });
}

/// The mounts stay, the claims stay, and the files of the allocation are there to read.
#[test]
fn a_restarted_task_keeps_its_volume_and_gets_signals() {
    let test = "jobs::a_restarted_task_keeps_its_volume_and_gets_signals";
    run_in_namespace(test, async {
        let machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        let script = "echo run >> /data/runs; cp /data/runs $NOMAD_ALLOC_DIR/data/copy; \
                      printf '\\377\\033[31m' > $NOMAD_ALLOC_DIR/data/bytes; \
                      trap 'echo hup' HUP; echo ready; while :; do sleep 0.1; done";
        machine.run(&machine.job("writer", "service", &volume("data", WRITER), script));
        let alloc = machine.wait_for("writer", "running", 1).remove(0);
        until_true("the first run", || machine.output(&alloc) == "ready\n");
        let (mounted, claims) = (mounts(), machine.claims());
        let id = alloc["ID"].as_str().unwrap();
        let task = format!("/v1/client/allocation/{id}");
        machine.put(&format!("{task}/signal"), &json!({"Task": "t", "Signal": "SIGHUP"}));
        until_true("the signal", || machine.output(&alloc) == "ready\nhup\n");
        machine.put(&format!("{task}/restart"), &json!({"TaskName": "t"}));
        until_true("the second run", || machine.output(&alloc) == "ready\nhup\nready\n");
        assert_eq!(mounts(), mounted);
        assert_eq!(machine.claims(), claims);
        let again = machine.wait_for("writer", "running", 1).remove(0);
        assert_eq!(again["ID"], alloc["ID"]);
        assert_eq!(again["TaskStates"]["t"]["Restarts"], 1);
        let file = |path: &str| {
            let path = format!("/v1/client/fs/cat/{id}?path={path}");
            machine.address().ask("GET", &path, None).unwrap()
        };
        assert_eq!(file("alloc/data/copy").text(), "run\nrun\n");
        assert_eq!(file("t/secrets/x").status, 400);
        let shown = program(["alloc", "fs", id, "alloc/data/bytes"])
            .env("NOMAD_ADDR", format!("http://{}", machine.address().tcp()))
            .output()
            .unwrap();
        assert_eq!(shown.stdout, b"\xff\x1b[31m", "{}", String::from_utf8_lossy(&shown.stderr));
        let local = machine.data().join("allocs").join(id).join("tasks/t/local");
        let (outside, inside) = (machine.directory.path().join("outside"), local.join("mounted"));
        std::fs::write(&outside, "not of the allocation").unwrap();
        std::fs::write(&inside, "").unwrap();
        rustix::mount::mount_bind(&outside, &inside).unwrap();
        let answer = file("t/local/mounted");
        assert_eq!(answer.status, 400, "{}", answer.text());
        rustix::mount::unmount(&inside, rustix::mount::UnmountFlags::empty()).unwrap();
        std::fs::remove_file(&inside).unwrap();
        let listed = machine.get(&format!("/v1/client/fs/ls/{id}?path=/"));
        let names: Vec<_> = listed.as_array().unwrap().iter().map(|file| &file["Name"]).collect();
        assert_eq!(names, ["alloc", "t"]);
        machine.stop("writer");
        machine.wait_for("writer", "complete", 1);
        let refused = machine.address().ask("PUT", &format!("{task}/restart"), Some(&json!({})));
        assert_eq!(refused.unwrap().status, 500);
        machine.assert_clean();
        machine.end();
    });
}

/// A job runs as the user of the agent, so only its operator may submit one.
#[test]
fn another_user_of_the_machine_runs_no_job() {
    let test = "jobs::another_user_of_the_machine_runs_no_job";
    if !has_all_users() {
        eprintln!("SKIPPED {test}: it needs another user, so root");
        return;
    }
    run_in_namespace(test, async {
        let machine = Machine::new();
        machine.create_volume("data", WRITER, "file-system");
        let job = machine.job("job", "batch", &volume("data", WRITER), "true");
        let address = machine.address().tcp();
        let run = |user: u32| {
            let mut command = program(["job", "run", "-"]);
            command.env("NOMAD_ADDR", format!("http://{address}"));
            command.uid(user).current_dir("/").stdin(Stdio::piped());
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let mut child = child.unwrap();
            let text = json!({ "Job": job }).to_string();
            child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        };
        let refused = run(STRANGER);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{text}");
        assert!(text.contains("only the operator of the agent"), "{text}");
        let known = machine.get("/v1/jobs?prefix=job");
        assert_eq!(known, json!([]));
        let accepted = run(0);
        assert!(accepted.status.success(), "{accepted:?}");
        machine.wait_for("job", "complete", 1);
        machine.end();
    });
}

/// Without a data directory nothing can take the tasks over, so they end with the agent.
/// B76: the events of the node say what was mounted and unmounted for which allocation, and why something could not be.
#[test]
fn mounts_and_unmounts_are_events_of_the_node() {
    let test = "jobs::mounts_and_unmounts_are_events_of_the_node";
    run_in_namespace(test, async {
        let machine = Machine::new();
        for id in ["good", "bad"] {
            machine.create_volume(id, WRITER, "file-system");
        }
        let events = || {
            let nodes = machine.get("/v1/nodes");
            let node = nodes[0]["ID"].as_str().unwrap();
            let events = machine.get(&format!("/v1/node/{node}"))["Events"].take();
            let line = |event: &Value| {
                let details = &event["Details"];
                assert_eq!(event["Subsystem"], "Storage", "{event:#}");
                assert!(event["Timestamp"].as_str().is_some(), "{event:#}");
                format!(
                    "{} {} {} {}",
                    event["Message"].as_str().unwrap(),
                    details["volume_id"].as_str().unwrap(),
                    details["alloc_id"].as_str().unwrap_or("-"),
                    details["success"].as_str().unwrap(),
                )
            };
            let events = events.as_array().unwrap();
            (events.iter().map(line).collect::<Vec<_>>(), events.clone())
        };
        assert_eq!(events().0, [] as [&str; 0]);
        machine.run(&machine.job("a", "batch", &volume("good", WRITER), "true"));
        let alloc = machine.wait_for("a", "complete", 1).remove(0);
        machine.assert_clean();
        let alloc = alloc["ID"].as_str().unwrap();
        let expected = [
            format!("Mount volume good {alloc} true"),
            format!("Unmount volume good {alloc} true"),
        ];
        assert_eq!(events().0, expected);

        // Its directory is made when it is first used.
        machine.run(&machine.job("c", "batch", &volume("bad", WRITER), "true"));
        machine.wait_for("c", "complete", 1);
        machine.assert_clean();
        let volumes = machine.data().join("plugins/hostpath/volumes");
        for directory in std::fs::read_dir(volumes).unwrap() {
            std::fs::remove_dir_all(directory.unwrap().path()).unwrap();
        }
        machine.run(&machine.job("b", "batch", &volume("bad", WRITER), "true"));
        until("the failed mount to be an event", || {
            let (lines, all) = events();
            let failed = lines
                .iter()
                .position(|one| one.starts_with("Mount volume bad ") && one.ends_with("false"));
            let failed = failed.ok_or_else(|| format!("{lines:#?}"))?;
            let error = all[failed]["Details"]["error"].as_str().unwrap();
            assert!(error.contains("is missing"), "{error}");
            Ok(())
        });
        machine.stop("b");
        machine.assert_no_claims();
        assert!(events().0.len() <= 10);
    });
}

#[test]
fn an_agent_with_a_temporary_directory_leaves_nothing() {
    let test = "jobs::an_agent_with_a_temporary_directory_leaves_nothing";
    run_in_namespace(test, async {
        let mut start = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
        start.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let mut machine = Machine::without_agent();
        machine.agent = Some(AgentProcess::run(start));
        machine.create_volume("data", WRITER, "file-system");
        let script = "sleep 600";
        machine.run(&machine.job("job", "service", &volume("data", WRITER), script));
        machine.wait_for("job", "running", 1);
        let socket = machine.agent().socket.clone();
        assert!(machine.agent.take().unwrap().stop().success());
        assert_eq!(machine.tasks(), Vec::<u32>::new());
        assert!(!socket.exists());
    });
}

/// What a shell starts in the background ignores interrupts, and so does everything that it starts, unless someone changes
/// that: a task could only be killed.
#[test]
fn an_agent_that_ignores_signals_starts_tasks_that_do_not() {
    let test = "jobs::an_agent_that_ignores_signals_starts_tasks_that_do_not";
    run_in_namespace(test, async {
        let mut machine = Machine::without_agent();
        let script = "trap '' INT QUIT HUP USR1 USR2; exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, PROGRAM, "agent", "--dev"]);
        command.args(["--http", "127.0.0.1:0", "--data-dir"]);
        command.arg(machine.data());
        command.env("XDG_RUNTIME_DIR", runtime_directory());
        machine.agent = Some(AgentProcess::run_with_its_log(command));
        let script = "grep SigIgn: /proc/self/status";
        machine.run(&machine.job_without_volume("a", "batch", script));
        let alloc = machine.wait_for("a", "complete", 1).remove(0);
        let output = machine.output(&alloc);
        let mask = output.trim().trim_start_matches("SigIgn:").trim();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        let bit = |signal: Signal| 1 << (signal.as_raw() - 1);
        for signal in [Signal::INT, Signal::QUIT, Signal::HUP, Signal::USR1, Signal::USR2] {
            assert_eq!(mask & bit(signal), 0, "{signal:?} is ignored: {output}");
        }
        machine.end();
    });
}
