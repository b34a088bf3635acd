//! One table of cases per rule: what a file declares, and what is reported at which place.

use super::check::check;
use super::file::{JobFile, ParsedJob};
use super::parse::parse_job;
use super::problem::report_text;
use super::validate::validate;
use crate::{Defaults, Syntax};
use nomad_csi_model::diagnostic::{Diagnostics, Severity, SourceMap};
use nomad_csi_model::*;

/// Decodes and checks a text: the job, and its problems as `code line:column text`.
fn read(text: &str, syntax: Syntax) -> (Option<ParsedJob>, Vec<String>, Diagnostics) {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("test", text);
    let defaults = Defaults::default();
    let parsed = parse_job(&mut sources, source, syntax, &defaults, &mut diagnostics);
    let parsed = match parsed {
        Some(JobFile::Specification(parsed)) => {
            check(&parsed, &mut diagnostics);
            Some(*parsed)
        }
        Some(JobFile::Api(_)) | None => None,
    };
    let shown = diagnostics.iter().map(|one| {
        let at = one.labels[0].span;
        let place = sources.location(at);
        let mark = if one.severity == Severity::Warning { "?" } else { "" };
        let text = sources.redacted_snippet(at);
        format!("{mark}{} {}:{} {text}", one.code, place.line, place.column)
    });
    let shown = shown.collect();
    (parsed, shown, diagnostics)
}

fn messages(diagnostics: &Diagnostics) -> Vec<&str> {
    diagnostics.iter().map(|one| one.message.as_str()).collect()
}

/// A job with lines in its group and its task.
fn job(group: &str, task: &str) -> String {
    format!(
        "job \"j\" {{\ngroup \"g\" {{\n{group}\ntask \"t\" {{\ndriver = \"exec\"\n{task}\n}}\n}}\n}}\n"
    )
}

fn valid(text: &str, syntax: Syntax) -> Job {
    let (parsed, shown, diagnostics) = read(text, syntax);
    assert!(diagnostics.is_empty(), "{shown:?}");
    parsed.expect("the job is decoded").job
}

const VOLUME: &str = r#"
volume "data" {
  type            = "csi"
  source          = "db"
  read_only       = true
  access_mode     = "multi-node-reader-only"
  attachment_mode = "file-system"
  mount_options {
    fs_type     = "ext4"
    mount_flags = ["noatime"]
  }
}
"#;

/// B82, B83: the source is a field of the volume, whatever its type.
#[test]
fn volumes_of_both_types_decode() {
    let host = "volume \"scratch\" {\ntype = \"host\"\nsource = \"tmp\"\nper_alloc = true\n}";
    let mount = "volume_mount {\nvolume = \"data\"\ndestination = \"/data\"\n}";
    let job = valid(&job(&format!("{VOLUME}{host}"), mount), Syntax::Hcl);
    let group = &job.groups[0];
    let data = &group.volumes[&VolumeAlias::new("data")];
    let scratch = &group.volumes[&VolumeAlias::new("scratch")];
    assert_eq!((data.source.as_str(), data.read_only), ("db", true));
    assert_eq!(scratch.source_of(2).as_str(), "tmp[2]");
    assert_eq!(scratch.kind.as_str(), "host");
    let JobVolumeKind::Csi { access_mode, attachment_mode, mount_options } = &data.kind else {
        panic!("{data:?}");
    };
    assert_eq!(*access_mode, Some(AccessMode::MultiNodeReaderOnly));
    assert_eq!(*attachment_mode, Some(AttachmentMode::FileSystem));
    let options = mount_options.as_ref().expect("there are mount options");
    assert_eq!(options.mount_flags, ["noatime"]);
    let mount = &group.tasks[0].volume_mounts[0];
    assert_eq!(mount.destination, "/data");
    assert_eq!(mount.propagation_mode, PropagationMode::Private);
}

/// B82: the form of Nomad before 0.9 is refused at its place, and nothing else is reported of it.
#[test]
fn a_nested_config_is_refused() {
    let group = "volume \"data\" {\ntype = \"host\"\nconfig {\nsource = \"db\"\n}\n}";
    let (_, shown, diagnostics) = read(&job(group, ""), Syntax::Hcl);
    assert_eq!(shown, ["spec/nested-config 5:1 config"]);
    assert!(messages(&diagnostics)[0].contains("`config` is obsolete"));
    let group = "volume \"data\" {\ntype = \"host\"\n}";
    let (_, _, diagnostics) = read(&job(group, ""), Syntax::Hcl);
    let expected = "volume `data` of group `g`: volume has an empty source";
    assert_eq!(messages(&diagnostics), [expected]);
    let group = "volume \"data\" {\ntype = \"host\"\nsource = \"db-${node.unique.name}\"\n}";
    let (_, shown, diagnostics) = read(&job(group, ""), Syntax::Hcl);
    assert!(shown[0].starts_with("job/volume-source "), "{shown:?}");
    assert!(messages(&diagnostics)[0].contains("the reference `${node.unique.name}`"));
}

/// B84, W51: unknown types and modes are refused at their places; Nomad drops the volume, or fails
/// when an allocation claims it.
#[test]
fn unknown_types_and_modes_are_refused() {
    let volume = |line: &str| {
        let all = VOLUME.replace(
            "\n  mount_options {\n    fs_type     = \"ext4\"\n    mount_flags = [\"noatime\"]\n  }",
            "",
        );
        let key = line.split(' ').next().expect("the line has a key");
        let lines =
            all.lines().map(|other| if other.trim_start().starts_with(key) { line } else { other });
        job(&lines.collect::<Vec<_>>().join("\n"), "")
    };
    for mode in AccessMode::ALL {
        let line = format!("access_mode = \"{mode}\"");
        let (parsed, _, _) = read(&volume(&line), Syntax::Hcl);
        let job = parsed.expect("the job is decoded").job;
        let volume = &job.groups[0].volumes[&VolumeAlias::new("data")];
        assert!(
            matches!(volume.kind, JobVolumeKind::Csi { access_mode: Some(found), .. } if found == mode)
        );
    }
    for (line, expected) in [
        ("type = \"nfs\"", "job/unknown-word 5:8 \"nfs\""),
        ("type = \"CSI\"", "job/unknown-word 5:8 \"CSI\""),
        ("access_mode = \"\"", "spec/unknown-access-mode 8:15 \"\""),
        ("access_mode = \"rwo\"", "spec/unknown-access-mode 8:15 \"rwo\""),
        ("attachment_mode = \"\"", "spec/unknown-attachment-mode 9:19 \"\""),
        ("attachment_mode = \"filesystem\"", "spec/unknown-attachment-mode 9:19 \"filesystem\""),
    ] {
        let (_, shown, _) = read(&volume(line), Syntax::Hcl);
        assert_eq!(shown, [expected], "{line}");
    }
}

/// B59: a plugin task has Nomad's defaults, and each invalid value has its message.
#[test]
fn plugin_tasks_decode_with_defaults_and_messages() {
    let task = "csi_plugin {\nid = \"p\"\ntype = \"node\"\n}";
    let decoded = valid(&job("", task), Syntax::Hcl);
    let plugin = decoded.groups[0].tasks[0].csi_plugin.as_ref().expect("it is a plugin");
    let expected = CsiPluginConfig::new(PluginId::new("p"), CsiPluginType::Node);
    assert_eq!(plugin, &expected);
    assert_eq!((&*plugin.mount_dir, &*plugin.stage_publish_base_dir), ("/csi", "/local/csi"));
    assert_eq!(plugin.health_timeout.as_secs(), 30);
    let decoded = valid(&job("", ""), Syntax::Hcl);
    assert_eq!(decoded.groups[0].tasks[0].csi_plugin, None);
    for (lines, expected) in [
        ("type = \"node\"", vec!["CSIPluginConfig must have a non-empty PluginID"]),
        ("id = \"p\"", vec!["`type` of `csi_plugin` is missing"]),
        ("id = \"p\"\ntype = \"nod\"", vec!["unknown plugin type `nod`"]),
        (
            "id = \"nfs-${node.class}\"\ntype = \"node\"",
            vec![
                "`id` of `csi_plugin` has the reference `${node.class}`, and no node replaces one there: all nodes would register one plugin under this text",
            ],
        ),
        (
            "id = \"p\"\ntype = \"node\"\nmount_dir = \"csi\"",
            vec!["`mount_dir` must be an absolute path without `..`"],
        ),
        (
            "id = \"p\"\ntype = \"node\"\nstage_publish_base_dir = \"/csi/./a\"",
            vec![
                "CSIPluginConfig StagePublishBaseDir must not be a subdirectory of MountDir, got: StagePublishBaseDir=\"/csi/./a\" MountDir=\"/csi\"",
            ],
        ),
        ("id = \"p\"\ntype = \"node\"\nstage_publish_base_dir = \"/csi-other\"", vec![]),
        (
            "id = \"p\"\ntype = \"node\"\nhealth_timeout = \"-1s\"",
            vec!["`health_timeout` is negative"],
        ),
    ] {
        let (_, _, diagnostics) =
            read(&job("", &format!("csi_plugin {{\n{lines}\n}}")), Syntax::Hcl);
        let found: Vec<_> = messages(&diagnostics)
            .into_iter()
            .map(|text| text.trim_start_matches("task `t` of group `g`: "))
            .collect();
        assert_eq!(found, expected, "{lines}");
    }
}

/// B79: a task whose driver cannot mount volumes is reported before it runs; a task without mounts
/// is not.
#[test]
fn a_driver_that_cannot_mount_is_reported() {
    let mount = "volume_mount {\nvolume = \"data\"\ndestination = \"/data\"\n}";
    let text = job(VOLUME, mount).replace("\"exec\"", "\"raw_exec\"");
    let (_, shown, diagnostics) = read(&text, Syntax::Hcl);
    assert_eq!(shown, ["?job/driver 17:10 \"raw_exec\""]);
    let expected = "task `t` of group `g`: task driver \"raw_exec\" does not support volumes";
    assert_eq!(messages(&diagnostics), [expected]);
    valid(&job(VOLUME, "").replace("\"exec\"", "\"raw_exec\""), Syntax::Hcl);
}

/// The same job in HCL, YAML and JSON.
#[test]
fn all_syntaxes_declare_the_same_job() {
    let hcl = job(VOLUME, "config {\n  args = [\"a\", \"b\"]\n  nested {\n    c = 1\n  }\n}");
    let yaml = r#"
job:
  j:
    group:
      g:
        volume:
          data:
            type: csi
            source: db
            read_only: true
            access_mode: multi-node-reader-only
            attachment_mode: file-system
            mount_options: {fs_type: ext4, mount_flags: [noatime]}
        task:
          t:
            driver: exec
            config:
              args: [a, b]
              nested: {c: 1}
"#;
    let json: serde_json::Value = serde_yaml::from_str(yaml).expect("the YAML is valid");
    let json = json.to_string();
    let expected = valid(&hcl, Syntax::Hcl);
    assert_eq!(valid(yaml, Syntax::Yaml), expected);
    assert_eq!(valid(&json, Syntax::Json), expected);
    assert_eq!(valid(&json, Syntax::Hcl), expected);
    let config = expected.groups[0].tasks[0].config.expose();
    let config = serde_json::to_string(config).expect("a map is JSON");
    assert_eq!(config, r#"{"args":["a","b"],"nested":[{"c":1}]}"#);
}

#[test]
fn references_of_the_running_task_are_kept_and_expressions_are_refused() {
    let task = "user = node.class\nenv {\nA = \"${NOMAD_ALLOC_INDEX}\"\nB = \"$${x}\"\nC = 1.50\nD = true\n}";
    let decoded = valid(&job("", task), Syntax::Hcl);
    let task = &decoded.groups[0].tasks[0];
    assert_eq!(task.user, "${node.class}");
    let pairs: Vec<_> = task.environment.expose().collect();
    let expected = [("A", "${NOMAD_ALLOC_INDEX}"), ("B", "${x}"), ("C", "1.5"), ("D", "true")];
    assert_eq!(pairs, expected);
    for (line, expected) in [
        ("user = var.user", "job/expression 6:8 var.user"),
        ("user = \"a-${var.user}\"", "job/expression 6:11 ${var.user}"),
        ("user = lower(\"A\")", "job/expression 6:8 lower(\"A\")"),
        ("user = root", "job/expression 6:8 root"),
        ("env {\nA = \"${HOME:-x}\"\n}", "job/expression 7:6 **********"),
        ("config {\nargs = [\"${local.a}\"]\n}", "job/expression 7:10 ${local.a}"),
    ] {
        let (_, shown, _) = read(&job("", line), Syntax::Hcl);
        assert_eq!(shown, [expected], "{line}");
    }
}

#[test]
fn ignored_parts_give_one_warning_and_their_expressions_do_not_matter() {
    let group =
        "network {\nport \"http\" {\nto = var.port\n}\n}\nservice {\nname = upper(\"x\")\n}";
    let task = "logs {\nmax_files = max(1, 2)\n}";
    let (parsed, shown, diagnostics) = read(&job(group, task), Syntax::Hcl);
    assert_eq!(shown, ["?job/ignored 3:1 network"]);
    let expected = "`logs`, `network` and `service` are ignored: they do not concern volumes";
    assert_eq!(messages(&diagnostics), [expected]);
    assert!(validate(&parsed.expect("the job is decoded").job).is_empty());
}

/// Each is one error at its place, also if it contains expressions; a null says nothing.
#[test]
fn parts_that_decide_what_happens_to_volumes_are_refused() {
    let group = "disconnect {\nlost_after = var.time\n}\nmax_run_duration = \"1h\"";
    let task = "template {\ndata = file(\"x\")\n}\nschedule {\n}\nvault = null";
    let (_, shown, diagnostics) = read(&job(group, task), Syntax::Hcl);
    let expected = ["disconnect", "max_run_duration", "template", "schedule"];
    let words: Vec<_> = shown.iter().filter_map(|line| line.split(' ').next_back()).collect();
    assert_eq!(words, expected, "{shown:?}");
    let is_refusal = |line: &String| line.starts_with("job/not-supported ");
    assert!(shown.iter().all(is_refusal), "{shown:?}");
    let when = "`schedule` is not supported: it decides when the job runs";
    assert!(messages(&diagnostics).contains(&when), "{diagnostics:?}");
}

#[test]
fn meta_and_reschedule_are_those_of_the_nearest_block() {
    let group = "meta {\nset = \"group\"\ndisk = \"fast\"\n}\nreschedule {\nattempts = 0\nunlimited = false\n}";
    let task = "meta = {\ndisk = \"slow\"\n}";
    let (parsed, shown, _) = read(&job(group, task), Syntax::Hcl);
    assert_eq!(shown, Vec::<String>::new());
    let job = parsed.expect("the job is decoded").job;
    let meta: Vec<_> = job.groups[0].tasks[0].meta.expose().collect();
    assert_eq!(meta, [("disk", "slow"), ("set", "group")]);
    assert!(job.meta.is_empty());
    let policy = job.groups[0].reschedule.as_ref().expect("a policy");
    assert_eq!((policy.attempts, policy.unlimited), (0, false));
}

/// Only a number of problems is kept. What is not kept could be in a part that is used.
#[test]
fn a_file_with_too_many_ignored_expressions_is_refused() {
    let many: String = (0..2000).map(|at| format!("data{at} = upper(\"x\")\n")).collect();
    let task = format!("template {{\n{many}}}\nuser = var.user");
    let (_, _, diagnostics) = read(&job("", &task), Syntax::Hcl);
    assert!(diagnostics.has_errors());
    assert!(messages(&diagnostics).contains(&"the job file contains more than 1000 expressions"));
}

#[test]
fn a_message_names_few_volumes() {
    let volumes: String =
        (0..50).map(|at| VOLUME.replace("\"data\"", &format!("\"v{at:02}\""))).collect();
    let task = "volume_mount {\nvolume = \"other\"\ndestination = \"/x\"\n}";
    let (_, _, diagnostics) = read(&job(&volumes, task), Syntax::Hcl);
    let label = &diagnostics.iter().next().expect("there is one").labels[0].text;
    assert!(label.starts_with("the group has `v00`, `v01`"), "{label}");
    assert!(label.ends_with("`v09` and 40 more"), "{label}");
}

#[test]
fn a_pattern_that_is_too_large_is_refused() {
    let pattern = |value: &str| {
        let line = format!(
            "constraint {{\nattribute = \"a\"\noperator = \"regexp\"\nvalue = \"{value}\"\n}}"
        );
        read(&job(&line, ""), Syntax::Hcl).1
    };
    assert_eq!(pattern("^a+$"), [] as [&str; 0]);
    let refused = pattern("(a{1000}){1000}");
    assert!(refused[0].starts_with("job/constraint"), "{refused:?}");
}

#[test]
fn a_job_has_few_launch_times() {
    let found = |count: usize| {
        let crons = vec!["\"0 3 * * *\""; count].join(",");
        let periodic = format!("type = \"batch\"\nperiodic {{\ncrons = [{crons}]\n}}\ngroup");
        read(&job("", "").replacen("group", &periodic, 1), Syntax::Hcl).1
    };
    assert_eq!(found(100), [] as [&str; 0]);
    let refused = found(101);
    assert!(refused[0].starts_with("job/invalid-value"), "{refused:?}");
}

#[test]
fn misspelt_keys_are_refused_with_a_suggestion_and_not_reported_as_missing() {
    let task = "volume_mount {\nvolume = \"data\"\ndestinaton = \"/x\"\n}";
    let (_, shown, diagnostics) = read(&job(VOLUME, task), Syntax::Hcl);
    assert_eq!(shown, ["spec/unknown-field 20:1 destinaton"]);
    let label = &diagnostics.iter().next().expect("there is one").labels[0].text;
    assert_eq!(label, "did you mean `destination`?");
}

#[test]
fn a_repeated_key_has_the_name_that_it_was_read_as() {
    let (_, _, diagnostics) =
        read(&job("", "drivr = \"exec\"\nkill_timeot = \"1s\"\nkill_timeut = \"2s\""), Syntax::Hcl);
    let messages = messages(&diagnostics);
    assert!(messages.contains(&"duplicate field `kill_timeout`"), "{messages:?}");
}

/// The texts of Nomad's API: a list in a list per group, volume and task.
#[test]
fn a_report_has_nomads_form() {
    let group = "volume \"v\" {\ntype = \"csi\"\nsource = \"db\"\n}";
    let (parsed, _, _) = read(&job(group, ""), Syntax::Hcl);
    let job = parsed.expect("the job is decoded").job;
    let expected = "1 error occurred:\n\t* Task group g validation failed: 1 error occurred:\n\t* Task group volume validation for v failed: 2 errors occurred:\n\t* CSI volumes must have an attachment mode\n\t* CSI volumes must have an access mode\n\n\n\n\n\n";
    assert_eq!(report_text(&job, &validate(&job)).as_deref(), Some(expected));
    assert_eq!(report_text(&job, &[]), None);
}

#[test]
fn a_job_survives_serialization_and_its_debug_output_has_no_secret() {
    let task = "env {\nPASSWORD = \"hunter2\"\n}\nconfig {\nauth {\npassword = \"hunter2\"\n}\n}";
    let job = valid(&job(VOLUME, task), Syntax::Hcl);
    let written = serde_json::to_string(&job).expect("a job is JSON");
    assert_eq!(serde_json::from_str::<Job>(&written).expect("it is read again"), job);
    assert!(!format!("{job:?}").contains("hunter2"));
}

#[test]
fn a_here_document_without_an_end_is_no_template_of_another_program() {
    let text = job("", "template {\ndata = <<EOT\n{{ key \"a\" }} ${x}\nEOTT\n}");
    let (_, _, diagnostics) = read(&text, Syntax::Hcl);
    let found = messages(&diagnostics);
    assert!(found[0].starts_with("this here-document is not closed"), "{found:?}");
}
