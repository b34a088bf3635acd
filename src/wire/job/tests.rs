//! A job survives the way to Nomad's words and back; words without a meaning are reported.

use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::document::JobDocument;
use super::from_wire::job_from_wire;
use super::to_wire::job_to_wire;
use crate::decode::decode_value;
use nomad_csi_model::*;

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9-]{0,8}"
}

/// Durations that differ from "not given".
fn duration() -> impl Strategy<Value = Duration> {
    (1..1_u64 << 60).prop_map(Duration::from_nanos)
}

fn word<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    select(all)
}

fn constraint() -> impl Strategy<Value = Constraint> {
    let parts = ("[a-z$.{}]{0,9}", word(ConstraintOperator::ALL), "[a-z0-9]{0,5}");
    parts.prop_map(|(attribute, operator, value)| Constraint { attribute, operator, value })
}

fn restart() -> impl Strategy<Value = RestartPolicy> {
    let parts = (any::<u32>(), duration(), duration(), word(RestartMode::ALL));
    parts.prop_map(|(attempts, interval, delay, mode)| RestartPolicy {
        attempts,
        interval,
        delay,
        mode,
    })
}

fn volume() -> impl Strategy<Value = JobVolume> {
    let options = (name(), vec(name(), 0..3))
        .prop_map(|(fs_type, mount_flags)| MountOptions { fs_type, mount_flags });
    let attachment = option::of(select(&AttachmentMode::ALL[..]));
    let csi = (option::of(select(&AccessMode::ALL[..])), attachment.clone(), option::of(options));
    let csi = csi.prop_map(|(access_mode, attachment_mode, mount_options)| JobVolumeKind::Csi {
        access_mode,
        attachment_mode,
        mount_options,
    });
    let host = (option::of(word(HostAccessMode::ALL)), attachment, any::<bool>());
    let host = host.prop_map(|(access_mode, attachment_mode, has_mount_options)| {
        JobVolumeKind::Host { access_mode, attachment_mode, has_mount_options }
    });
    let flags = any::<[bool; 3]>();
    (name(), flags, prop_oneof![csi, host]).prop_map(|(source, flags, kind)| JobVolume {
        source,
        read_only: flags[0],
        per_alloc: flags[1],
        sticky: flags[2],
        kind,
    })
}

fn mount() -> impl Strategy<Value = VolumeMount> {
    let modes = (word(PropagationMode::ALL), option::of(word(SelinuxLabel::ALL)));
    let parts = (name(), "/[a-z]{0,5}", any::<bool>(), modes);
    parts.prop_map(|(volume, destination, read_only, modes)| VolumeMount {
        volume: VolumeAlias::new(volume),
        destination,
        read_only,
        propagation_mode: modes.0,
        selinux_label: modes.1,
    })
}

fn plugin() -> impl Strategy<Value = CsiPluginConfig> {
    let parts = (name(), word(CsiPluginType::ALL), "/[a-z]{1,5}", "/[a-z]{1,5}", duration());
    parts.prop_map(|(id, plugin_type, mount_dir, base, health_timeout)| CsiPluginConfig {
        id: PluginId::new(id),
        plugin_type,
        mount_dir,
        stage_publish_base_dir: base,
        health_timeout,
    })
}

fn task() -> impl Strategy<Value = Task> {
    let lifecycle = (word(LifecycleHook::ALL), any::<bool>())
        .prop_map(|(hook, is_sidecar)| Lifecycle { hook, is_sidecar });
    let texts = (name(), name(), name(), name());
    let blocks = (option::of(lifecycle), option::of(plugin()), vec(mount(), 0..3));
    let rest = (restart(), duration(), any::<bool>(), any::<[i64; 4]>());
    let data = (btree_map(name(), name(), 0..3), vec(constraint(), 0..2));
    (texts, blocks, rest, data).prop_map(|(texts, blocks, rest, data)| {
        let config = json!({"command": texts.3, "args": [1, 2.5, true, null, {"a": []}]});
        let mut task = Task::new(texts.0, texts.1, rest.0);
        task.user = texts.2;
        task.lifecycle = blocks.0;
        task.csi_plugin = blocks.1;
        task.volume_mounts = blocks.2;
        task.kill_timeout = rest.1;
        task.is_leader = rest.2;
        let [cpu, cores, memory_mb, memory_max_mb] = rest.3;
        task.resources = Resources { cpu, cores, memory_mb, memory_max_mb };
        task.meta = data.0.iter().map(|(name, value)| (format!("m{name}"), value)).collect();
        task.environment = data.0.into_iter().collect();
        task.constraints = data.1;
        task.config = TaskConfig::new(config.as_object().cloned().unwrap_or_default());
        task
    })
}

fn group() -> impl Strategy<Value = TaskGroup> {
    let volumes = btree_map(name().prop_map(VolumeAlias::new), volume(), 0..3);
    let numbers = (any::<i64>(), any::<i64>());
    let parts = (
        name(),
        numbers,
        vec(constraint(), 0..2),
        restart(),
        option::of(reschedule()),
        vec(task(), 0..3),
        volumes,
    );
    parts.prop_map(|(name, numbers, constraints, restart, reschedule, tasks, volumes)| TaskGroup {
        name,
        count: numbers.0,
        canaries: numbers.1,
        constraints,
        volumes,
        restart,
        reschedule,
        tasks,
    })
}

/// A policy is on record if it differs from the default, and only in jobs whose allocations are replaced.
fn with_policy_of(job_type: JobType, group: TaskGroup) -> TaskGroup {
    let policy = group.reschedule.filter(|_| matches!(job_type, JobType::Service | JobType::Batch));
    TaskGroup { reschedule: policy.and_then(|policy| policy.unless_default(job_type)), ..group }
}

fn reschedule() -> impl Strategy<Value = ReschedulePolicy> {
    let times = (duration(), duration(), duration());
    let parts = (any::<u32>(), times, word(DelayFunction::ALL), any::<bool>());
    parts.prop_map(|(attempts, times, delay_function, unlimited)| ReschedulePolicy {
        attempts,
        interval: times.0,
        delay: times.1,
        delay_function,
        max_delay: times.2,
        unlimited,
    })
}

fn job() -> impl Strategy<Value = Job> {
    let texts = (name(), name(), name(), name(), name());
    let lists = (vec(name(), 1..3), vec(constraint(), 0..2), vec(group(), 0..3));
    let parts = (texts, word(JobType::ALL), 1..i64::MAX, lists);
    parts.prop_map(|(texts, job_type, priority, lists)| Job {
        namespace: Namespace::new(texts.0),
        id: JobId::new(texts.1),
        name: texts.2,
        region: texts.3,
        node_pool: texts.4,
        job_type,
        priority,
        datacenters: lists.0,
        constraints: lists.1,
        meta: TaskEnvironment::default(),
        periodic: None,
        parameterized: None,
        origin: None,
        groups: lists.2.into_iter().map(|group| with_policy_of(job_type, group)).collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_job_survives_the_way_there_and_back(job in job()) {
        let written = serde_json::to_value(job_to_wire(&job)).expect("a document is JSON");
        let document: JobDocument = decode_value(&written).expect("the document is read again");
        let (read, problems) = job_from_wire(&document, &Namespace::default());
        prop_assert_eq!(problems, vec![]);
        prop_assert_eq!(read, job);
    }
}

#[test]
fn what_a_document_leaves_out_is_nomads_default() {
    let document = json!({"ID": "j", "Type": null, "Priority": null, "TaskGroups": [
        {"Name": "g", "Count": null, "RestartPolicy": {"Attempts": 0, "Interval": null}, "Tasks": [
            {"Name": "t", "Driver": "exec", "Config": null, "Env": null, "KillTimeout": null}
        ], "Volumes": null, "Networks": [{"Mode": "host"}]}
    ]});
    let document = decode_value(&document).expect("the document is read");
    let (job, problems) = job_from_wire(&document, &Namespace::new("prod"));
    assert_eq!(problems, []);
    let mut expected = Job::new(Namespace::new("prod"), JobId::new("j"));
    let mut group = TaskGroup::new("g", JobType::Service);
    group.restart.attempts = 0;
    group.tasks = vec![Task::new("t", "exec", group.restart.clone())];
    expected.groups = vec![group];
    assert_eq!(job, expected);
}

/// W51: an unknown type or mode is reported; Nomad drops the volume, or fails when it is claimed.
#[test]
fn words_without_a_meaning_are_reported() {
    let document = json!({"ID": "j", "Type": "deamon", "TaskGroups": [{"Name": "g",
        "RestartPolicy": {"Mode": "retry"},
        "Volumes": {
            "a": {"Type": "nfs"},
            "b": {"Type": "csi", "AccessMode": "rwo", "AttachmentMode": "filesystem"},
            "c": {"Type": "host", "AccessMode": "multi-node-multi-writer"}
        },
        "Tasks": [{"Name": "t", "KillTimeout": -1, "Lifecycle": {"Hook": "before"},
            "VolumeMounts": [{"PropagationMode": "both", "SELinuxLabel": "q"}],
            "CSIPluginConfig": {"Type": "nod"}}]
    }]});
    let document = decode_value(&document).expect("the document is read");
    let (job, problems) = job_from_wire(&document, &Namespace::default());
    let shown: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "Invalid job type: \"deamon\"",
            "Task group g: Unsupported restart mode: \"retry\"",
            "Task group g: volume has unrecognized type nfs",
            "Task group g: unknown volume attachment mode: filesystem",
            "Task group g: unknown volume access mode: rwo",
            "Task group g: host volumes cannot be mounted with multi-node-multi-writer access mode",
            "Task group g: Task t: KillTimeout must be a positive value",
            "Task group g: Task t: Lifecycle validation failed: invalid hook: before",
            "Task group g: Task t: volume mount has an invalid propagation mode: \"both\"",
            "Task group g: Task t: volume mount has an invalid SELinux label: \"q\"",
            "Task group g: Task t: CSIPluginConfig PluginType must be one of 'node', 'controller', or 'monolith', got: \"nod\"",
        ]
    );
    assert!(!job.groups[0].volumes.contains_key(&VolumeAlias::new("a")));
}

/// B84: an empty mode is none, and a CSI volume needs both.
#[test]
fn an_empty_mode_of_a_csi_volume_is_invalid() {
    for (access, attachment, expected) in [
        ("single-node-writer", "file-system", vec![]),
        ("", "file-system", vec!["CSI volumes must have an access mode"]),
        ("single-node-writer", "", vec!["CSI volumes must have an attachment mode"]),
    ] {
        let document = json!({"ID": "j", "Type": "service", "TaskGroups": [{"Name": "g",
            "Volumes": {"v": {"Type": "csi", "Source": "db", "AccessMode": access,
                "AttachmentMode": attachment}},
            "Tasks": [{"Name": "t", "Driver": "exec", "Config": {"command": "/bin/true"}}]
        }]});
        let document = decode_value(&document).expect("the document is read");
        let (job, problems) = job_from_wire(&document, &Namespace::default());
        assert_eq!(problems, []);
        let found = nomad_csi_spec::job::validate(&job);
        let texts: Vec<_> = found.iter().map(|one| one.text.as_str()).collect();
        let has = |text: &&str| texts.iter().any(|found| found.contains(text));
        assert!(expected.iter().all(has), "{texts:?}");
        assert_eq!(texts.is_empty(), expected.is_empty(), "{texts:?}");
    }
}

/// A job that starts by itself or on request is read as Nomad's clients write it, and is the same afterwards.
#[test]
fn jobs_that_others_are_made_from_keep_what_decides_about_their_runs() {
    let submitted = json!({
        "ID": "j", "Type": "batch", "Meta": {"color": "red"},
        "Periodic": {"Enabled": null, "Spec": null, "Specs": ["0 3 * * *", "@daily"], "SpecType": "cron",
            "ProhibitOverlap": true, "TimeZone": "Europe/Berlin"},
        "ParameterizedJob": {"Payload": "required", "MetaRequired": ["set"], "MetaOptional": null},
        "TaskGroups": [{"Name": "g", "Meta": {"size": "group"}, "Tasks": [{"Name": "t", "Driver": "exec",
            "DispatchPayload": {"File": "in/payload"}}]}],
    });
    let (job, problems) = job_from_wire(&decode_value(&submitted).unwrap(), &Namespace::default());
    assert_eq!(problems, []);
    let periodic = job.periodic.as_ref().expect("it is periodic");
    assert!(periodic.is_enabled && periodic.prohibits_overlap);
    assert_eq!(periodic.expressions().collect::<Vec<_>>(), ["0 3 * * *", "@daily"]);
    let parameterized = job.parameterized.as_ref().expect("it is parameterized");
    assert_eq!(parameterized.payload, PayloadRule::Required);
    assert_eq!(parameterized.meta_required, ["set"]);
    let task = &job.groups[0].tasks[0];
    assert_eq!(task.payload_file.as_deref(), Some("in/payload"));
    assert_eq!(job.meta.get("color"), Some("red"));
    assert_eq!(task.meta.get("color"), None);
    assert!(job.is_template() && job.is_parameterized());
    let written = json!(job_to_wire(&job));
    let (again, problems) = job_from_wire(&decode_value(&written).unwrap(), &Namespace::default());
    assert_eq!((again, problems), (job, vec![]));
}

/// Clients cannot make a job look like one that the server made, and nothing that decides about runs is dropped.
#[test]
fn what_only_a_server_sets_or_nobody_reads_is_a_problem() {
    let problems = |job: serde_json::Value| match decode_value::<JobDocument>(&job) {
        Err(error) => format!("{error:?}"),
        Ok(document) => {
            let (_, problems) = job_from_wire(&document, &Namespace::default());
            problems.iter().map(ToString::to_string).collect()
        }
    };
    for (job, expected) in [
        (json!({"Dispatched": true}), "'Dispatched' set"),
        (json!({"ParentID": "nightly"}), "'ParentID' set"),
        (json!({"Periodic": {"SpecType": "test"}}), "specification type \"test\""),
        (json!({"Periodic": {"Crons": ["@daily"]}}), "Crons"),
        (json!({"ParameterizedJob": {"Payload": "maybe"}}), "payload requirement: \"maybe\""),
        (json!({"ParameterizedJob": {"Required": ["set"]}}), "Required"),
        (json!({"TaskGroups": [{"Tasks": [{"DispatchPayload": {"Path": "x"}}]}]}), "Path"),
    ] {
        let found = problems(job.clone());
        assert!(found.contains(expected), "{job}: {found}");
    }
}

/// A part that decides when a job runs, or what it reads, is never lost, in whatever form a client sends it.
#[test]
fn parts_that_decide_what_happens_to_volumes_are_problems() {
    let problems = |job: serde_json::Value| -> Vec<String> {
        let document: JobDocument = decode_value(&job).unwrap();
        let (_, problems) = job_from_wire(&document, &Namespace::default());
        problems.iter().map(ToString::to_string).collect()
    };
    let group = |group: serde_json::Value| json!({"ID": "j", "TaskGroups": [group]});
    let task = |task: serde_json::Value| group(json!({"Name": "g", "Tasks": [task]}));
    for (job, part) in [
        (json!({"ID": "j", "Payload": "aGVsbG8K"}), "Payload"),
        (json!({"ID": "j", "Multiregion": {"Regions": [{"Name": "a"}]}}), "Multiregion"),
        (group(json!({"Name": "g", "MaxRunDuration": 1})), "MaxRunDuration"),
        (group(json!({"Name": "g", "Disconnect": {"LostAfter": 1}})), "Disconnect"),
        (group(json!({"Name": "g", "MaxClientDisconnect": 1})), "MaxClientDisconnect"),
        (group(json!({"Name": "g", "StopAfterClientDisconnect": 1})), "StopAfterClientDisconnect"),
        (group(json!({"Name": "g", "PreventRescheduleOnLost": true})), "PreventRescheduleOnLost"),
        (task(json!({"Name": "t", "Templates": [{"EmbeddedTmpl": "x"}]})), "Templates"),
        (task(json!({"Name": "t", "Artifacts": [{"GetterSource": "x"}]})), "Artifacts"),
        (task(json!({"Name": "t", "Schedule": {"Cron": {"Start": "x"}}})), "Schedule"),
        (task(json!({"Name": "t", "Secrets": [{"Name": "x"}]})), "Secrets"),
        (
            task(json!({"Name": "t", "Identities": [{"Name": "x"}, {"Name": "y", "File": true}]})),
            "Identities",
        ),
        (task(json!({"Name": "t", "Identity": {"env": true}})), "Identity"),
        (task(json!({"Name": "t", "Vault": {"Role": "x"}})), "Vault"),
        (task(json!({"Name": "t", "Vault": {}})), "Vault"),
    ] {
        let found = problems(job);
        let expected = format!("{part} is not supported: it decides ");
        assert!(found.len() == 1 && found[0].contains(&expected), "{part}: {found:?}");
    }
    let nothing = json!({
        "ID": "j", "Periodic": null, "ParameterizedJob": null, "Multiregion": {"Regions": null},
        "TaskGroups": [{
            "Name": "g", "Disconnect": null, "MaxRunDuration": 0, "PreventRescheduleOnLost": false,
            "ReschedulePolicy": {"Attempts": 0, "Delay": 30_000_000_000_i64, "DelayFunction": "exponential",
                "Interval": 0, "MaxDelay": 3_600_000_000_000_i64, "Unlimited": true},
            "Tasks": [{"Name": "t", "Templates": [], "Artifacts": null, "Vault": null,
                "Identity": {"Env": false, "File": false}, "Identities": [{"Name": "x", "Env": false}]}],
        }],
    });
    assert_eq!(problems(nothing.clone()), Vec::<String>::new());
    let (job, _) = job_from_wire(&decode_value(&nothing).unwrap(), &Namespace::default());
    assert_eq!(job.groups[0].reschedule, None, "the default of the type is no difference");
}
