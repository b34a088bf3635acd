use super::*;
use crate::plugin_snapshots::{PluginSnapshots, read_snapshot};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Severity, SourceMap};
use nomad_csi_model::{Job, NamespacedId};
use nomad_csi_spec::job::{JobFile, JobPlaces, parse_job};
use nomad_csi_spec::{Defaults, GivenVariables, Syntax, read};

const SNAPSHOT: &str = r#"{"version":1,"kind":"plugin-snapshot","id":"ceph","provider":"rbd","controller_required":true,
    "controller_capabilities":["CREATE_DELETE_VOLUME"],"node_capabilities":[],
    "topologies":[{"segments":{"zone":"a"},"nodes":1},{"segments":{"zone":"b"},"nodes":1}],"max_volumes":2}"#;

/// A group with one volume.
fn group(name: &str, count: u32, fields: &str) -> String {
    format!(
        "group \"{name}\" {{\n count = {count}\n volume \"data\" {{\n type = \"csi\"\n {fields}\n }}\n \
         task \"t\" {{\n driver = \"exec\"\n }}\n}}\n"
    )
}

const WRITER: &str = "access_mode = \"single-node-writer\"\n attachment_mode = \"file-system\"";

fn job(id: &str, groups: &str) -> String {
    format!("job \"{id}\" {{\n{groups}}}\n")
}

/// A block of volumes.
fn block(label: &str, rest: &str) -> String {
    format!(
        "volume \"{label}\" {{\n type = \"csi\"\n plugin_id = \"ceph\"\n name = volume.key\n {rest}\n \
         capability {{\n access_mode = \"single-node-writer\"\n attachment_mode = \"file-system\"\n }}\n}}\n"
    )
}

fn lint(jobs: &[String], volumes: &str) -> Vec<(Diagnostic, Vec<String>)> {
    let mut sources = SourceMap::default();
    let mut diagnostics = Diagnostics::default();
    let source = sources.add("volumes.hcl", volumes);
    let texts = [(source, Syntax::Hcl)];
    let (given, defaults) = (GivenVariables::default(), Defaults::default());
    let parsed = read(&mut sources, &texts, &given, &defaults, &mut diagnostics);
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    let mut read_jobs: Vec<(Job, JobPlaces)> = vec![];
    for text in jobs {
        let source = sources.add("job.nomad.hcl", text.as_str());
        let parsed = parse_job(&mut sources, source, Syntax::Hcl, &defaults, &mut diagnostics);
        let Some(JobFile::Specification(parsed)) = parsed else {
            panic!("{diagnostics:?}");
        };
        read_jobs.push((parsed.job, parsed.places));
    }
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    let jobs: Vec<LintedJob<'_>> =
        read_jobs.iter().map(|(job, places)| LintedJob { job, places }).collect();
    let specs = parsed.volumes.iter().map(|spec| (spec.key(), LintVolume::of_spec(spec, true)));
    let volumes: LintVolumes = specs.collect::<Vec<(NamespacedId, _)>>().into_iter().collect();
    let file = read_snapshot("p/ceph.plugin.json", "ceph", SNAPSHOT).unwrap();
    let snapshots: PluginSnapshots = [file].into_iter().collect();
    let found = lint_jobs(&jobs, &volumes, &snapshots);
    found
        .into_iter()
        .map(|problem| {
            let marked = problem.labels.iter().map(|label| {
                let text = sources.snippet(label.span).lines().next().unwrap_or_default();
                format!("{text} | {}", label.text)
            });
            let marked = marked.collect();
            (problem, marked)
        })
        .collect()
}

fn codes(found: &[(Diagnostic, Vec<String>)]) -> Vec<(Code, Severity)> {
    found.iter().map(|(one, _)| (one.code, one.severity)).collect()
}

fn only(jobs: &[String], volumes: &str, code: Code) -> (Diagnostic, Vec<String>) {
    let mut found = lint(jobs, volumes);
    assert_eq!(codes(&found), [(code, Severity::Error)], "{found:?}");
    found.remove(0)
}

fn uses(fields: &str) -> Vec<String> {
    vec![job("j", &group("g", 1, &format!("{fields}\n {WRITER}")))]
}

#[test]
fn a_job_whose_volumes_exist_and_fit_has_no_problem() {
    assert_eq!(lint(&uses("source = \"db\""), &block("db", "")), []);
    let three =
        vec![job("j", &group("g", 3, &format!("source = \"db\"\n per_alloc = true\n {WRITER}")))];
    assert_eq!(lint(&three, &block("db", "count = 3")), []);
    let host = "job \"j\" {\n group \"g\" {\n volume \"d\" {\n type = \"host\"\n source = \"none\"\n }\n task \"t\" {\n driver = \"exec\"\n }\n }\n}\n";
    assert_eq!(lint(&[host.to_owned()], &block("db", "")), []);
}

#[test]
fn a_volume_that_does_not_exist_is_named_with_a_similar_one_or_its_namespace() {
    let (problem, marked) =
        only(&uses("source = \"databse\""), &block("database", ""), Code::JobVolumeMissing);
    assert_eq!(
        problem.message,
        "volume `data` of group `g`: volume `databse` is missing in namespace `default`"
    );
    assert_eq!(problem.help, ["did you mean `database`?"]);
    assert_eq!(marked, ["\"databse\" | no such volume"]);
    let (problem, _) = only(
        &uses("source = \"db\""),
        &block("db", "namespace = \"prod\""),
        Code::JobVolumeMissing,
    );
    assert!(problem.notes[0].starts_with("namespace `prod` has a volume `db`"), "{problem:?}");
    let per_alloc = uses("source = \"dbb0\"\n per_alloc = true");
    let (problem, _) = only(&per_alloc, &block("dbb1", "count = 1"), Code::JobVolumeMissing);
    assert!(problem.message.contains("`dbb0[0]`"), "{problem:?}");
    assert_eq!(problem.help, ["did you mean `dbb1`?"]);
}

#[test]
fn missing_indexes_are_named_with_the_count_that_declares_the_others() {
    let three =
        vec![job("j", &group("g", 3, &format!("source = \"pg\"\n per_alloc = true\n {WRITER}")))];
    let (problem, marked) = only(&three, &block("pg", "count = 2"), Code::JobVolumeIndex);
    assert_eq!(
        problem.message,
        "volume `data` of group `g`: volume `pg[2]` is missing in namespace `default`"
    );
    assert_eq!(
        marked[0],
        "volume \"data\" | `per_alloc` with 3 allocations uses `pg[0]` to `pg[2]`"
    );
    assert!(marked[1].ends_with(" | declares 2 volumes"), "{marked:?}");
    assert_eq!(problem.help, ["set `count = 3` here, or `count = 2` in the group"]);
    let many =
        vec![job("j", &group("g", 90, &format!("source = \"pg\"\n per_alloc = true\n {WRITER}")))];
    let (problem, _) = only(&many, &block("pg", "count = 2"), Code::JobVolumeIndex);
    assert!(
        problem.message.contains("volumes `pg[2]`, `pg[3]`, `pg[4]` and 85 more are missing"),
        "{problem:?}"
    );
}

#[test]
fn an_index_of_a_volume_without_use_is_noted() {
    let one =
        vec![job("j", &group("g", 2, &format!("source = \"pg\"\n per_alloc = true\n {WRITER}")))];
    let volumes = ["pg[0]", "pg[5]"].map(|id| block(id, ""));
    let volumes = volumes.concat().replace("volume.key", "\"n\"");
    let volumes = volumes.replacen("\"n\"", "\"m\"", 1);
    let (problem, _) = only(&one, &volumes, Code::JobVolumeIndex);
    assert_eq!(problem.notes, ["1 volume has an index that no allocation of the group uses"]);
}

#[test]
fn an_index_that_only_one_side_has_is_reported_with_the_other_form() {
    let (problem, marked) =
        only(&uses("source = \"db\"\n per_alloc = true"), &block("db", ""), Code::JobVolumeSuffix);
    assert_eq!(
        problem.message,
        "volume `data` of group `g`: volume `db[0]` does not exist, but `db` does"
    );
    assert_eq!(marked.len(), 2);
    let (problem, marked) =
        only(&uses("source = \"db\""), &block("db", "count = 2"), Code::JobVolumeSuffix);
    assert_eq!(problem.help, ["set `per_alloc = true`, or `source = \"db[0]\"`"]);
    assert_eq!(marked[1], "volume \"db\" | declared with an index");
}

#[test]
fn modes_that_the_volume_does_not_have_are_listed() {
    let fields = "source = \"db\"\n access_mode = \"multi-node-multi-writer\"\n attachment_mode = \"file-system\"";
    let jobs = [job("j", &group("g", 1, fields))];
    let (problem, marked) = only(&jobs, &block("db", ""), Code::JobVolumeCapability);
    assert_eq!(problem.notes, ["the volume has: `single-node-writer` with `file-system`"]);
    assert!(marked[0].starts_with("\"multi-node-multi-writer\""), "{marked:?}");
    assert!(marked[1].starts_with("capability | "), "{marked:?}");
}

#[test]
fn a_writer_of_a_volume_for_readers_is_reported() {
    let readers = block("db", "").replace("single-node-writer", "multi-node-reader-only");
    let (problem, marked) = only(&uses("source = \"db\""), &readers, Code::JobVolumeReadOnly);
    assert_eq!(
        problem.message,
        "volume `data` of group `g`: the group writes, and volume `db` can only be read"
    );
    assert!(marked[1].ends_with("| every access mode only reads"), "{marked:?}");
    let fields = "source = \"db\"\n read_only = true\n access_mode = \"multi-node-reader-only\"\n attachment_mode = \"file-system\"";
    assert_eq!(lint(&[job("j", &group("g", 1, fields))], &readers), []);
}

#[test]
fn the_writers_of_all_jobs_count_for_a_volume_with_one_writer() {
    let of = |id: &str, kind: &str, fields: &str| {
        job(
            id,
            &format!("{kind}{}", group("g", 1, &format!("source = \"db\"\n {fields}\n {WRITER}"))),
        )
    };
    let both = [of("one", "", ""), of("two", "", "")];
    let (problem, marked) = only(&both, &block("db", ""), Code::JobTooManyUsers);
    assert_eq!(
        problem.message,
        "volume `data` of group `g`: group `g` of job `one` writes to volume `db` too, which allows one writer"
    );
    assert_eq!(marked.len(), 2);
    // They can run one after the other.
    let ending = [of("one", "type = \"batch\"\n", ""), of("two", "", "")];
    let found = lint(&ending, &block("db", ""));
    assert_eq!(codes(&found), [(Code::JobTooManyUsers, Severity::Warning)]);
    let reading = [of("one", "", "read_only = true"), of("two", "", "")];
    assert_eq!(lint(&reading, &block("db", "")), []);
    let other = block("db", "").replace("single-node-writer", "multi-node-multi-writer");
    let many = both.map(|text| text.replace("single-node-writer", "multi-node-multi-writer"));
    assert_eq!(lint(&many, &other), []);
}

#[test]
fn a_volume_that_no_node_reaches_is_reported_with_the_topologies() {
    let of = |zone: &str| {
        block(
            "db",
            &format!(
                "topology_request {{\n required {{\n topology {{ segments {{ zone = \"{zone}\" }} }}\n }}\n }}"
            ),
        )
    };
    assert_eq!(lint(&uses("source = \"db\""), &of("b")), []);
    let (problem, marked) = only(&uses("source = \"db\""), &of("c"), Code::JobVolumeTopology);
    assert_eq!(
        problem.notes,
        ["the nodes have: (zone=a), (zone=b)", "as `p/ceph.plugin.json` says"]
    );
    assert!(marked[1].starts_with("topology_request | "), "{marked:?}");
}

#[test]
fn more_volumes_than_the_nodes_can_have_are_reported_once() {
    let of = |count: u32| {
        vec![job(
            "j",
            &group("g", count, &format!("source = \"db\"\n per_alloc = true\n {WRITER}")),
        )]
    };
    assert_eq!(lint(&of(4), &block("db", "count = 9")), []);
    let (problem, _) = only(&of(5), &block("db", "count = 9"), Code::JobVolumeLimit);
    assert_eq!(
        problem.message,
        "volume `data` of group `g`: the jobs use 5 volumes of plugin `ceph`, and its nodes can have 4"
    );
}
