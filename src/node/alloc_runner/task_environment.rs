//! The environment of a task, and the values of references in its configuration.
//!
//! The job's variables come on top of Nomad's, and may refer to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::interpolation::Interpolation;
use nomad_csi_model::{Node, Task};
use nomad_csi_ports::AssignedAlloc;

/// The `PATH` of a task whose job sets none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The directories and the socket of a task, as the task sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VisibleDirectories {
    /// The one that all tasks of the allocation share.
    pub(super) shared: PathBuf,
    /// The task's own.
    pub(super) local: PathBuf,
    /// The task's secrets.
    pub(super) secrets: PathBuf,
    /// The endpoint that its plugin serves, if it runs one.
    pub(super) csi_endpoint: Option<String>,
}

/// Returns the environment of a task, and the values of references in its other settings.
pub(super) fn task_environment(
    alloc: &AssignedAlloc,
    task: &Task,
    node: &Arc<Node>,
    directories: &VisibleDirectories,
) -> (BTreeMap<String, String>, Interpolation) {
    let mut environment = nomad_variables(alloc, task, node, directories);
    if let Some(endpoint) = &directories.csi_endpoint {
        environment.insert("CSI_ENDPOINT".to_owned(), endpoint.clone());
    }
    let known = |environment: &BTreeMap<String, String>| {
        Interpolation::new(environment.clone()).on_node(Arc::clone(node))
    };
    let meta = meta_variables(task, &known(&environment));
    environment.extend(meta);
    let values = known(&environment);
    for (name, value) in task.environment.expose() {
        environment.insert(name.to_owned(), values.text(value));
    }
    environment.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    let interpolation = known(&environment);
    (environment, interpolation)
}

fn nomad_variables(
    alloc: &AssignedAlloc,
    task: &Task,
    node: &Node,
    directories: &VisibleDirectories,
) -> BTreeMap<String, String> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let short_id: String = alloc.id.as_str().chars().take(8).collect();
    let variables = [
        ("ALLOC_DIR", path(&directories.shared)),
        ("ALLOC_ID", alloc.id.to_string()),
        ("ALLOC_INDEX", alloc.index.to_string()),
        ("ALLOC_NAME", alloc.name()),
        ("CPU_LIMIT", task.resources.cpu.to_string()),
        ("DC", node.datacenter.clone()),
        ("GROUP_NAME", alloc.group.clone()),
        ("JOB_ID", alloc.job.id.to_string()),
        ("JOB_NAME", alloc.job.name.clone()),
        ("MEMORY_LIMIT", task.resources.memory_mb.to_string()),
        ("NAMESPACE", alloc.job.namespace.to_string()),
        ("REGION", alloc.job.region.clone()),
        ("SECRETS_DIR", path(&directories.secrets)),
        ("SHORT_ALLOC_ID", short_id),
        ("TASK_DIR", path(&directories.local)),
        ("TASK_NAME", task.name.clone()),
    ];
    let parent = alloc.job.origin.as_ref().map(|origin| origin.parent.to_string());
    let parent = parent.map(|parent| ("JOB_PARENT_ID", parent));
    let variables = variables.into_iter().chain(parent);
    variables.map(|(name, value)| (format!("NOMAD_{name}"), value)).collect()
}

/// The values of `meta`, under their names as written and in capitals. A character that no variable can
/// have becomes `_`.
fn meta_variables(task: &Task, values: &Interpolation) -> BTreeMap<String, String> {
    let names = |name: &str| [name.to_uppercase(), name.to_owned()];
    let variable = |name: String| {
        let is_usual = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name: String = name.chars().map(|c| if is_usual(c) { c } else { '_' }).collect();
        format!("NOMAD_META_{name}")
    };
    let pairs = task.meta.expose().flat_map(|(name, value)| {
        let value = values.text(value);
        names(name).map(|name| (variable(name), value.clone()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{Job, JobType, RestartPolicy, TaskEnvironment};

    #[test]
    fn a_task_has_nomads_variables_and_the_jobs_may_refer_to_them() {
        let mut task = Task::new("web", "exec", RestartPolicy::of_type(JobType::Service));
        task.environment = TaskEnvironment::from_iter([
            ("NAME", "${NOMAD_TASK_NAME} on ${node.unique.name}"),
            ("NOMAD_REGION", "mine"),
            ("SHELL_STYLE", "${HOME}"),
            ("SET", "${NOMAD_META_set}/${NOMAD_META_OWNER}"),
        ]);
        task.meta = TaskEnvironment::from_iter([
            ("set", "a"),
            ("owner", "${node.unique.name}"),
            ("my.key", "dotted"),
        ]);
        let alloc = AssignedAlloc {
            id: "0123456789".into(),
            job: Arc::new(Job::new("ns".into(), "shop".into())),
            group: "g".to_owned(),
            index: 2,
            wants_stop: false,
            cut_off: [].into(),
            report: None,
        };
        let node = Arc::new(Node::new("n1".into(), "laptop", "dc1"));
        let directories = VisibleDirectories {
            shared: "/alloc".into(),
            local: "/local".into(),
            secrets: "/secrets".into(),
            csi_endpoint: Some("unix:///csi/csi.sock".to_owned()),
        };
        let (environment, interpolation) = task_environment(&alloc, &task, &node, &directories);
        let expected = [
            ("CSI_ENDPOINT", "unix:///csi/csi.sock"),
            ("NAME", "web on laptop"),
            ("NOMAD_ALLOC_DIR", "/alloc"),
            ("NOMAD_ALLOC_ID", "0123456789"),
            ("NOMAD_ALLOC_INDEX", "2"),
            ("NOMAD_ALLOC_NAME", "shop.g[2]"),
            ("NOMAD_CPU_LIMIT", "100"),
            ("NOMAD_DC", "dc1"),
            ("NOMAD_GROUP_NAME", "g"),
            ("NOMAD_JOB_ID", "shop"),
            ("NOMAD_JOB_NAME", "shop"),
            ("NOMAD_MEMORY_LIMIT", "300"),
            ("NOMAD_META_MY_KEY", "dotted"),
            ("NOMAD_META_OWNER", "laptop"),
            ("NOMAD_META_SET", "a"),
            ("NOMAD_META_my_key", "dotted"),
            ("NOMAD_META_owner", "laptop"),
            ("NOMAD_META_set", "a"),
            ("NOMAD_NAMESPACE", "ns"),
            ("NOMAD_REGION", "mine"),
            ("NOMAD_SECRETS_DIR", "/secrets"),
            ("NOMAD_SHORT_ALLOC_ID", "01234567"),
            ("NOMAD_TASK_DIR", "/local"),
            ("NOMAD_TASK_NAME", "web"),
            ("PATH", PATH),
            ("SET", "a/laptop"),
            ("SHELL_STYLE", "${HOME}"),
        ];
        let environment: Vec<_> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(environment, expected);
        let text = interpolation.text("${NAME} in ${node.datacenter} ${NOMAD_ALLOC_INDEX}");
        assert_eq!(text, "web on laptop in dc1 2");
    }
}
