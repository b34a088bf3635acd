//! Tasks of root, which an agent refuses unless its operator allows them, as a client of Nomad does.
//!
//! A task of `exec` has the user IDs of the host, so its root is root's ID there. What keeps it from the host are its mounts
//! and rights: a process outside that hands it an open directory of the host undoes both. A plugin is trusted anyway.

use crate::job::place::JobPlace;
use crate::job::problem::JobProblem;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Job, Task};

/// Why a task of `exec` is not run as root, and what to do.
pub const ROOT_REFUSED: &str = "a task of `exec` does not run as root on this agent, because a process outside of it \
     could make it root of the machine; remove `user` or name another one, or start the agent with \
     `--allow-root-tasks`";

/// Returns whether the rule is for this task: the driver, and no plugin.
pub fn may_be_refused_as_root(task: &Task) -> bool {
    task.driver == "exec" && task.csi_plugin.is_none()
}

/// Returns the tasks of a job that an agent refuses, because they name root as their user, by name or by number. Another name
/// of root is known to the node only.
pub fn root_tasks(job: &Job) -> Vec<JobProblem> {
    let mut problems = vec![];
    for (group_at, group) in job.groups.iter().enumerate() {
        for (task_at, task) in group.tasks.iter().enumerate() {
            let is_root = task.user == "root" || task.user.parse() == Ok(0_u32);
            if is_root && may_be_refused_as_root(task) {
                let place = JobPlace::group(group_at).task(task_at).field("user");
                let problem = JobProblem::error(Code::JobRootTask, place, ROOT_REFUSED);
                problems.push(problem.label("refused"));
            }
        }
    }
    problems
}
