//! Tasks of root: refused, unless the operator allows them, and then not beside a program of another user of the host.

use nomad_csi_model::hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::agent_process::{AgentProcess, program, runtime_directory};
use crate::hostpath_fixture::run_in_namespace;
use crate::job_machine::{Machine, WRITER, volume};

/// A job whose first task runs as this user, with a second task of `raw_exec`.
fn pair(machine: &Machine, first: &str, second: &str) -> Value {
    let mut job = machine.job("pair", "batch", &volume("data", WRITER), "true");
    let tasks = &mut job["TaskGroups"][0]["Tasks"];
    tasks[0]["User"] = json!(first);
    let beside = json!({
        "Name": "beside", "Driver": "raw_exec", "User": second,
        "Config": {"command": "/bin/true"},
    });
    tasks.as_array_mut().unwrap().push(beside);
    job
}

#[test]
fn a_task_of_root_is_refused_and_never_runs_beside_another_user_of_the_host() {
    let test =
        "root_tasks::a_task_of_root_is_refused_and_never_runs_beside_another_user_of_the_host";
    run_in_namespace(test, async {
        let machine = Machine::new();
        let job = json!({ "Job": pair(&machine, "root", "") });
        let answer = machine.address().ask("PUT", "/v1/jobs", Some(&job)).unwrap();
        assert_ne!(answer.status, 200);
        let text = answer.text();
        assert!(text.contains("Task t validation failed"), "{text}");
        assert!(text.contains("`--allow-root-tasks`"), "{text}");
        let verdict = machine.put("/v1/validate/job", &job);
        let error = verdict["Error"].as_str().unwrap();
        assert!(error.contains("`--allow-root-tasks`"), "{error}");
        machine.end();

        let machine = Machine::with_options(["--allow-root-tasks"]);
        machine.create_volume("data", WRITER, "file-system");
        for (first, second, status) in [
            ("root", "daemon", "failed"),
            ("root", "", "complete"),
            ("nobody", "daemon", "complete"),
        ] {
            machine.run(&pair(&machine, first, second));
            let ended = machine.wait_for("pair", status, 1).remove(0);
            if status == "failed" {
                let text = ended["ClientDescription"].as_str().unwrap();
                let reason =
                    "task `t` runs as root, and task `beside` as user `daemon` on the host";
                assert!(text.contains(reason), "{text}");
            }
            let purge = "/v1/job/pair?purge=true";
            machine.address().ask("DELETE", purge, None).unwrap().json();
            crate::wait::until_true("the job to be forgotten", || {
                machine.allocs("pair").is_empty()
            });
        }
        machine.end();
    });
}

/// The data directory has a long path, so the sockets are in the runtime directory, which a host volume shows.
#[test]
fn a_task_does_not_see_the_sockets_of_the_agent() {
    let test = "root_tasks::a_task_does_not_see_the_sockets_of_the_agent";
    run_in_namespace(test, async {
        let prefix = "x".repeat(100);
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir().unwrap();
        let mut machine = Machine::in_directory(directory);
        let runtime = runtime_directory().canonicalize().unwrap();
        let volume_option = format!("--host-volume=runtime={}:ro", runtime.display());
        machine.start_with([volume_option.as_str(), "--allow-root-tasks"]);
        let data = machine.data().canonicalize().unwrap();
        let digest = Sha256::digest(data.as_os_str().as_encoded_bytes());
        let name: String = "nomad-csi-".chars().chain(hex(&digest[..6])).collect();
        assert!(runtime.join(&name).join("agent.sock").exists());
        machine.create_volume("data", WRITER, "file-system");
        // As `nobody`, the task does not even get to the directory.
        for (user, expected) in [("root", "0\n0\n"), ("nobody", "0\n")] {
            let script =
                format!("stat -c %a /runtime/{name}; ls /runtime/{name} 2>/dev/null | wc -l");
            let mut job = machine.job("look", "batch", &volume("data", WRITER), &script);
            job["TaskGroups"][0]["Volumes"]["r"] =
                json!({"Type": "host", "Source": "runtime", "ReadOnly": true});
            let task = &mut job["TaskGroups"][0]["Tasks"][0];
            task["User"] = json!(user);
            let mounts = task["VolumeMounts"].as_array_mut().unwrap();
            mounts.push(json!({"Volume": "r", "Destination": "/runtime", "ReadOnly": true}));
            machine.run(&job);
            let looked = machine.wait_for("look", "complete", 1).remove(0);
            assert_eq!(machine.output(&looked), expected, "{user}");
            let purge = "/v1/job/look?purge=true";
            machine.address().ask("DELETE", purge, None).unwrap().json();
            crate::wait::until_true("the job to be forgotten", || {
                machine.allocs("look").is_empty()
            });
        }
        machine.end();
    });
}

/// A task could rename a parent of what is hidden from it.
#[test]
fn a_writable_host_volume_does_not_contain_the_agents_data() {
    let test = "root_tasks::a_writable_host_volume_does_not_contain_the_agents_data";
    run_in_namespace(test, async { start_with_host_volumes() });
}

fn start_with_host_volumes() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("agent");
    let around = directory.path().display();
    for (option, text) in [
        (format!("all={around}"), "contains"),
        (format!("all={around}:ro"), ""),
        (format!("all={}:ro", data.display()), "is in"),
    ] {
        std::fs::create_dir_all(&data).unwrap();
        let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(&data);
        command.arg("--host-volume").arg(&option);
        if text.is_empty() {
            AgentProcess::run(command).kill();
            continue;
        }
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{option}");
        let expected = format!(
            "{text} `{}`, a directory of the agent",
            data.canonicalize().unwrap().display()
        );
        assert!(stderr.contains(&expected), "{option}: {stderr}");
    }
}
