//! What drivers and agents can do, and what they refuse.

use super::*;
use nomad_csi_model::Resources;

fn program() -> TaskProgram {
    TaskProgram { command: "/bin/true".into(), ..TaskProgram::default() }
}

fn request(config: DriverConfig) -> RunRequest {
    RunRequest {
        alloc: "a".into(),
        resources: Resources::default(),
        task: "web".to_owned(),
        config,
        environment: BTreeMap::new(),
        user: None,
        mounts: vec![],
        hidden: vec![],
        kill_signal: 15,
        kill_timeout: Duration::from_secs(5),
        logs: LogLimits::default(),
        earlier_runs: vec![],
    }
}

fn mount(destination: &str) -> TaskMount {
    TaskMount {
        source: "/volumes/db".into(),
        destination: destination.into(),
        read_only: false,
        propagation: PropagationMode::Private,
        identity: None,
    }
}

fn refusal(request: RunRequest, rights: AgentRights) -> String {
    match RunSpec::of(request, rights) {
        Err(reason) => reason,
        Ok(_) => panic!("it is not refused"),
    }
}

const USER: AgentRights = AgentRights::User { uid: 1000 };

#[test]
fn the_driver_decides_what_the_task_sees() {
    for (config, root) in [
        (DriverConfig::Exec(program()), TaskRoot::Own),
        (DriverConfig::ExecPlugin(program()), TaskRoot::OwnPrivileged),
        (DriverConfig::RawExec(program()), TaskRoot::Host),
    ] {
        let spec = RunSpec::of(request(config), AgentRights::Root).ok().unwrap();
        assert_eq!(spec.root, root);
        assert_eq!(spec.kill_signal(), Signal::TERM);
        assert_eq!(spec.kill_timeout(), Duration::from_secs(5));
    }
}

#[test]
fn raw_exec_refuses_mounts_in_words() {
    let mut with_mount = request(DriverConfig::RawExec(program()));
    with_mount.mounts.push(mount("/data"));
    assert_eq!(
        refusal(with_mount, AgentRights::Root),
        "`raw_exec` cannot mount a volume at `/data`, because its tasks see the file system of the host; \
         use driver `exec`"
    );
}

#[test]
fn destinations_that_cannot_be_mounted_are_refused_in_words() {
    for (destination, reason) in [
        ("data", "the destination `data` is not an absolute path without `..`"),
        ("/a/../b", "the destination `/a/../b` is not an absolute path without `..`"),
        ("/", "a volume cannot replace `/`; choose a directory"),
        (
            "/sys/fs",
            "the destination `/sys/fs` is in `/sys`, which the kernel fills; choose another directory",
        ),
        ("/twice/", "two mounts have the destination `/twice/`"),
    ] {
        let mut request = request(DriverConfig::Exec(program()));
        request.mounts = vec![mount(destination), mount("/twice")];
        assert_eq!(refusal(request, AgentRights::Root), reason);
    }
}

#[test]
fn mounts_come_after_those_that_contain_them() {
    let mut request = request(DriverConfig::Exec(program()));
    request.mounts = ["/local/c", "/b", "/local.x", "/local"].map(mount).into();
    let spec = RunSpec::of(request, AgentRights::Root).ok().unwrap();
    let order: Vec<_> = spec.mounts.iter().map(|mount| &mount.destination).collect();
    let position = |path: &str| order.iter().position(|at| *at == Path::new(path));
    assert!(position("/local") < position("/local/c"), "{order:?}");
}

/// A task that removes its directory in its own mount namespace unmounts it.
#[test]
fn a_mount_in_a_directory_of_other_tasks_is_refused() {
    for (around, destination) in [("/alloc", "/alloc/data/db"), ("/data", "/data/db")] {
        for config in [DriverConfig::Exec, DriverConfig::ExecPlugin] {
            let mut request = request(config(program()));
            request.mounts = ["/local", destination, around].map(mount).into();
            assert_eq!(
                refusal(request, AgentRights::Root),
                format!(
                    "the mount at `{destination}` is inside of `{around}`, which other tasks can change: one that removes \
                     its directory there unmounts it; choose a destination outside of `{around}`, such as `/data`"
                )
            );
        }
    }
}

#[test]
fn only_a_plugin_mounts_onto_the_host() {
    let bidirectional = TaskMount { propagation: PropagationMode::Bidirectional, ..mount("/csi") };
    let with = |config| {
        let mut request = request(config);
        request.mounts.push(bidirectional.clone());
        request
    };
    assert_eq!(
        refusal(with(DriverConfig::Exec(program())), AgentRights::Root),
        "the mount at `/csi` is bidirectional, and only a plugin may mount onto the host"
    );
    let plugin = with(DriverConfig::ExecPlugin(program()));
    assert!(RunSpec::of(plugin, AgentRights::Root).is_ok());
}

#[test]
fn an_agent_without_root_refuses_what_only_root_can_do() {
    let plugin = request(DriverConfig::ExecPlugin(program()));
    assert_eq!(
        refusal(plugin, USER),
        "a plugin mounts volumes for other tasks, which only root can do, and the agent runs as user 1000; \
         run the agent as root"
    );
    let mut other_user = request(DriverConfig::Exec(program()));
    other_user.user = Some(TaskUser { uid: 33, gid: 33 });
    assert_eq!(
        refusal(other_user, USER),
        "the agent runs as user 1000 and cannot run a task as user 33; run the agent as root, or remove the \
         task's `user`"
    );
}

#[test]
fn an_agent_without_root_does_not_switch_to_its_own_user() {
    let mut own = request(DriverConfig::Exec(program()));
    own.user = Some(TaskUser { uid: 1000, gid: 1000 });
    let spec = RunSpec::of(own, USER).ok().unwrap();
    assert_eq!(spec.user, None, "it is root in its user namespace");
}

#[test]
fn incomplete_programs_are_refused() {
    let empty = request(DriverConfig::Exec(TaskProgram::default()));
    assert_eq!(refusal(empty, AgentRights::Root), "it has no command");
    let mut signal = request(DriverConfig::Exec(program()));
    signal.kill_signal = 4711;
    assert_eq!(refusal(signal, AgentRights::Root), "there is no signal 4711");
    let relative = TaskProgram { working_directory: Some("local".into()), ..program() };
    assert_eq!(
        refusal(request(DriverConfig::RawExec(relative)), AgentRights::Root),
        "its working directory `local` is not an absolute path"
    );
}

#[test]
fn a_request_shows_no_values_of_the_environment() {
    let mut request = request(DriverConfig::Exec(program()));
    request.environment.insert("PASSWORD".to_owned(), "hunter2".to_owned());
    let shown = format!("{request:?}");
    assert!(shown.contains("PASSWORD") && !shown.contains("hunter2"), "{shown}");
}

/// A task of `raw_exec` has no limits, and a PID namespace limits the others where no control group does.
#[test]
fn the_driver_decides_whether_a_task_is_limited() {
    let group = |controllers: &[&str]| ControlGroup::for_tests(controllers);
    for (config, is_limited) in [
        (DriverConfig::Exec(program()), true),
        (DriverConfig::ExecPlugin(program()), true),
        (DriverConfig::RawExec(program()), false),
    ] {
        let spec = |group, has_own_numbers| {
            let spec = RunSpec::of(request(config.clone()), AgentRights::Root).ok();
            let spec = spec.unwrap().limited(group, has_own_numbers);
            (spec.control_group.is_some(), spec.limits_process_numbers)
        };
        let pids = || Some(group(&["pids.max"]));
        let memory = || Some(group(&["memory.max"]));
        assert_eq!(spec(pids(), true), (is_limited, false));
        assert_eq!(spec(memory(), true), (is_limited, is_limited));
        assert_eq!(spec(memory(), false), (is_limited, false));
        assert_eq!(spec(None, true), (false, is_limited));
        assert_eq!(spec(None, false), (false, false));
    }
}
