//! `agent --plugin-endpoint`: an agent uses a plugin that it did not start, with real mounts, while either of
//! them is stopped, killed and started again.

use std::path::Path;
use std::process::Stdio;

use crate::agent_process::{AgentProcess, program};
use crate::plugin_process::{KilledOnDrop, endpoint, plugin_command};
use crate::reconcile::address;
use crate::wait::until;
use nomad_csi_testing::namespace::{mounts, run_in_mount_namespace};

const ALLOC: &str = "5fc98185-17ff-26bc-a802-0c74fa471c99";

const VOLUME: &str = r#"
id        = "db"
name      = "db"
type      = "csi"
plugin_id = "ebs"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
"#;

/// Starts a plugin, and does not wait for it.
pub(crate) fn start_plugin(directory: &Path) -> KilledOnDrop {
    KilledOnDrop(plugin_command(directory, &["--backing", "directory"]).spawn().unwrap())
}

fn start_agent(directory: &Path) -> AgentProcess {
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(directory.join("agent"));
    command.arg(format!("--plugin-endpoint=ebs={}", endpoint(directory)));
    AgentProcess::run(command)
}

/// Waits until the description of the plugin's health starts with this text.
fn wait_for_health(agent: &AgentProcess, expected: &str) {
    until(expected, || {
        let answer = agent.address.ask("GET", "/v1/plugin/csi/ebs", None);
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status != 200 {
            return Err(answer.text());
        }
        let plugin = answer.json();
        let controllers = plugin["Controllers"].as_object().unwrap().values();
        let mut found: Vec<_> = controllers
            .map(|instance| instance["HealthDescription"].as_str().unwrap().to_owned())
            .collect();
        match found.pop() {
            Some(description) if description.starts_with(expected) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

/// Runs a command that succeeds, and returns its output.
fn run(agent: &AgentProcess, folder: &Path, line: &str) -> String {
    let output = program(line.split(' '))
        .args(["--address", &address(agent)])
        .current_dir(folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{line}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn claim(agent: &AgentProcess, folder: &Path) -> String {
    let path = run(agent, folder, &format!("volume claim db --alloc {ALLOC}"));
    let path = path.trim().to_owned();
    assert!(mounts().contains(&path), "{path} is not mounted");
    path
}

fn release(agent: &AgentProcess, folder: &Path) {
    run(agent, folder, &format!("volume release db --alloc {ALLOC}"));
}

#[test]
fn a_running_plugin_is_used_through_restarts_of_plugin_and_agent() {
    run_in_mount_namespace(
        "plugin_endpoint::a_running_plugin_is_used_through_restarts_of_plugin_and_agent",
        || {
            let base = tempfile::tempdir().unwrap();
            let base = base.path();
            std::fs::write(base.join("db.hcl"), VOLUME).unwrap();
            let plugin = start_plugin(base);
            let agent = start_agent(base);
            wait_for_health(&agent, "healthy");
            run(&agent, base, "volume create -f db.hcl");
            let path = claim(&agent, base);
            std::fs::write(Path::new(&path).join("file"), "kept").unwrap();

            // The plugin is killed and started again.
            drop(plugin);
            wait_for_health(&agent, "cannot use task ebs: nothing listens on");
            let plugin = start_plugin(base);
            wait_for_health(&agent, "healthy");
            release(&agent, base);
            assert_eq!(claim(&agent, base), path);

            // The agent stops in order, and the next one uses the plugin at once.
            let plugin_id = plugin.0.id();
            assert!(agent.stop().success());
            let agent = start_agent(base);
            wait_for_health(&agent, "healthy");
            assert_eq!(claim(&agent, base), path);

            // The agent is killed: the same process may still be carrying out its calls.
            agent.kill();
            let agent = start_agent(base);
            wait_for_health(
                &agent,
                &format!(
                    "cannot use task ebs: process {plugin_id} may still be carrying out calls"
                ),
            );
            drop(plugin);
            let _plugin = start_plugin(base);
            wait_for_health(&agent, "healthy");
            let kept = std::fs::read_to_string(Path::new(&path).join("file"));
            assert_eq!(kept.unwrap(), "kept");
            release(&agent, base);
            run(&agent, base, "volume delete db --yes");
            assert!(agent.stop().success());
        },
    );
}

/// A plugin whose option is removed after a crash of the agent stays with the reason while its process runs,
/// and is gone afterwards.
#[test]
fn a_plugin_that_is_no_longer_given_is_lost_and_then_gone() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let plugin = start_plugin(base);
    let agent = start_agent(base);
    wait_for_health(&agent, "healthy");
    agent.kill();
    let without = || {
        let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(base.join("agent"));
        AgentProcess::run(command)
    };
    let agent = without();
    let process = format!("process {} may still be carrying out calls", plugin.0.id());
    let reason = "the agent was started without the plugin's `--plugin-endpoint`, and ";
    wait_for_health(&agent, &(reason.to_owned() + &process));
    assert!(agent.stop().success());
    drop(plugin);
    let agent = without();
    let listed = run(&agent, base, "plugin status -o name");
    assert_eq!(listed, "hostpath\n");
    assert!(agent.stop().success());
}

/// Rule 4 of the claims machine, with two controllers and a crash: the first plugin may still be carrying out a creation,
/// so the second one gets none until the process of the first has ended.
#[test]
fn a_creation_without_an_answer_stays_with_its_plugin_while_that_runs() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    std::fs::write(base.join("db.hcl"), VOLUME).unwrap();
    let (first, second) = (base.join("first"), base.join("second"));
    for directory in [&first, &second] {
        std::fs::create_dir(directory).unwrap();
    }
    let agent_with = |directory: &Path| {
        let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(base.join("agent"));
        command.arg(format!("--plugin-endpoint=ebs={}", endpoint(directory)));
        AgentProcess::run(command)
    };
    let flags = ["--backing", "directory", "--fault", "CreateVolume:hang"];
    let hanging = KilledOnDrop(plugin_command(&first, &flags).spawn().unwrap());
    let agent = agent_with(&first);
    wait_for_health(&agent, "healthy");
    let mut command = program(["volume", "create", "-f", "db.hcl", "--address", &address(&agent)]);
    command.current_dir(base).stdout(Stdio::null()).stderr(Stdio::null());
    let waiting = KilledOnDrop(command.spawn().unwrap());
    let log = first.join("plugin.log");
    until("the call to be under way", || {
        let text = std::fs::read_to_string(&log).map_err(|error| error.to_string())?;
        text.contains("injecting a fault").then_some(()).ok_or(text)
    });
    agent.kill();
    drop(waiting);

    let _working = start_plugin(&second);
    let agent = agent_with(&second);
    let create = |agent: &AgentProcess| {
        let mut command = program(["volume", "create", "-f", "db.hcl"]);
        let command = command.args(["--address", &address(agent)]).current_dir(base);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let usable = || {
        let answer = agent.address.ask("GET", "/v1/plugin/csi/ebs", None);
        let plugin = answer.map_err(|error| error.to_string())?.json();
        match plugin["ControllersHealthy"].as_i64() {
            Some(1) => Ok(()),
            _ => Err(plugin.to_string()),
        }
    };
    until("the second plugin to be usable", usable);
    let (code, text) = create(&agent);
    assert_ne!(code, Some(0), "{text}");
    assert!(text.contains("may still take effect in plugin instance"), "{text}");
    let provided = |agent: &AgentProcess| {
        let answer = agent.address.ask("GET", "/v1/volumes/external?plugin_id=ebs", None);
        answer.unwrap().json()["Volumes"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(provided(&agent), 0, "the second plugin got the creation");

    // What the error says: end the process, and start the agent without its endpoint.
    drop(hanging);
    assert!(agent.stop().success());
    let agent = agent_with(&second);
    until("the volume", || match create(&agent) {
        (Some(0), _) => Ok(()),
        (_, text) => Err(text),
    });
    assert_eq!(provided(&agent), 1);
    assert!(agent.stop().success());
}

/// Without an ID, the plugin is registered under the name that it gives itself.
#[test]
fn a_running_plugin_without_an_id_has_its_own_name() {
    let base = tempfile::tempdir().unwrap();
    let command = || {
        let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(base.path().join("agent"));
        command.args(["--plugin-endpoint", &endpoint(base.path())]);
        command
    };
    let refused = command().output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("error[agent/plugin-endpoint]"), "{text}");
    assert!(text.contains("its name is unknown"), "{text}");

    let _plugin = start_plugin(base.path());
    let agent = AgentProcess::run(command());
    let listed = run(&agent, base.path(), "plugin status -o name");
    let names: Vec<_> = listed.lines().collect();
    assert_eq!(names.len(), 2, "{listed}");
    assert!(names.contains(&"hostpath"), "{listed}");
    assert!(agent.stop().success());
}
