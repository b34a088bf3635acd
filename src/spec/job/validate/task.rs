//! The rules of a task: its volumes, its plugin, its driver.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use super::rules::{GroupAt, Rules, first_reference, shown_duration};
use crate::job::place::JobPlace;
use crate::job::problem::JobProblem;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{
    CsiPluginConfig, SHARED_DIRECTORY, Task, TaskGroup, VolumeMount, shared_mount_around,
};

/// Drivers that cannot mount volumes, on any node (B79).
const CANNOT_MOUNT: [&str; 3] = ["raw_exec", "mock_driver", "qemu"];

/// The number of volumes that a message names.
const LISTED_VOLUMES: usize = 10;

/// Drivers whose tasks are no processes of the node, so no plugin can run in one.
const CANNOT_RUN_PLUGIN: [&str; 2] = ["mock_driver", "qemu"];

impl<'j> Rules<'j> {
    pub(super) fn task(&mut self, at: GroupAt<'j, '_>, task: &'j Task, place: &JobPlace) {
        if task.name.contains(['/', '\\']) {
            let text = "Task name cannot include slashes";
            self.error(Code::JobName, place.clone(), text, "remove the slash");
        }
        if task.driver.is_empty() {
            let place = place.field("driver");
            self.error(Code::JobIncomplete, place, "Missing task driver", "add `driver`");
        }
        if task.kill_timeout > Task::MAX_KILL_TIMEOUT {
            let longest = shown_duration(Task::MAX_KILL_TIMEOUT);
            let text = format!(
                "Task kill_timeout is longer than {longest}, and nothing ends such a task sooner"
            );
            let label = "write a shorter time";
            self.error(Code::JobInvalidValue, place.field("kill_timeout"), text, label);
        }
        self.hidden_settings(task, place);
        self.constraints(&task.constraints, place);
        if task.restart != at.group.restart {
            self.restart(&task.restart, place);
        }
        self.volume_mounts(at, task, place);
        self.payload_file(task, place);
        if let Some(plugin) = &task.csi_plugin {
            self.csi_plugin(task, plugin, &place.block("csi_plugin", ""));
        }
    }

    /// A job that a server showed lacks what it hides, and would run without it.
    fn hidden_settings(&mut self, task: &Task, place: &JobPlace) {
        let hidden = [
            ("env", task.environment.is_redacted()),
            ("meta", task.meta.is_redacted()),
            ("config", task.config.is_redacted()),
        ];
        for (block, is_hidden) in hidden {
            if is_hidden {
                self.redacted(&place.field(block), block);
            }
        }
    }

    /// Refuses what a server shows instead of a value.
    pub(super) fn redacted(&mut self, place: &JobPlace, what: &str) {
        let text = format!("`{what}` is [REDACTED], which a server shows instead of the values");
        let label = "submit the file from which the job was made";
        self.error(Code::JobHidden, place.clone(), text, label);
    }

    fn volume_mounts(&mut self, at: GroupAt<'_, '_>, task: &Task, place: &JobPlace) {
        let mut destinations: HashMap<PathBuf, JobPlace> = HashMap::new();
        for (mount_at, mount) in task.volume_mounts.iter().enumerate() {
            let place = place.block("volume_mount", &mount_at.to_string());
            self.mounted_volume(at, mount, mount_at, &place);
            if mount.destination.is_empty() {
                let text = format!("Volume Mount ({mount_at}) has no destination");
                let place = place.field("destination");
                self.error(Code::JobVolumeMount, place, text, "add `destination`");
                continue;
            }
            let destination = plain_path(&mount.destination);
            let own = place.field("destination");
            if let Some(first) = destinations.get(&destination) {
                let text = format!(
                    "Volume Mount ({mount_at}) hides another one with the same destination, `{}`",
                    mount.destination
                );
                let problem = JobProblem::error(Code::JobVolumeMount, own, text);
                self.problems.push(problem.repeats(first.clone()));
            } else {
                destinations.insert(destination, own);
            }
        }
        if task.driver == "exec" {
            self.nested_mounts(task, place);
        }
        let driver = task.driver.as_str();
        if !task.volume_mounts.is_empty() && CANNOT_MOUNT.contains(&driver) {
            let text = format!("task driver \"{driver}\" does not support volumes");
            let label = "the task fails when it starts";
            self.warning(Code::JobDriver, place.field("driver"), text, label);
        }
    }

    /// Refuses a volume at a place that other tasks can take away.
    fn nested_mounts(&mut self, task: &Task, place: &JobPlace) {
        let mounts = task.volume_mounts.iter();
        let places: Vec<_> = mounts.map(|mount| place_in_task(&mount.destination)).collect();
        for (mount_at, destination) in places.iter().enumerate() {
            let others = places.iter().map(PathBuf::as_path);
            let around = others.chain([Path::new(SHARED_DIRECTORY)]);
            let Some(around) = shared_mount_around(destination, around) else {
                continue;
            };
            let around = around.display();
            let text = format!(
                "Volume Mount ({mount_at}) is inside of `{around}`, which other tasks can change: one that removes its \
                 directory there unmounts the volume; choose a destination outside of `{around}`, such as `/data`"
            );
            let place = place.block("volume_mount", &mount_at.to_string());
            let place = place.field("destination");
            self.error(Code::JobVolumeMount, place, text, "not a safe place");
        }
    }

    fn mounted_volume(
        &mut self,
        at: GroupAt<'_, '_>,
        mount: &VolumeMount,
        mount_at: usize,
        place: &JobPlace,
    ) {
        let volume = mount.volume.as_str();
        let is_interpolated = volume.contains("${");
        if volume.is_empty() {
            let text = format!("Volume Mount ({mount_at}) references an empty volume");
            let label = "add `volume`, the name of a volume of the group";
            self.error(Code::JobVolumeMount, place.field("volume"), text, label);
        } else if !is_interpolated && !at.group.volumes.contains_key(&mount.volume) {
            let text = format!("Volume Mount ({mount_at}) references undefined volume {volume}");
            let label = known_volumes(at.group);
            self.error(Code::JobVolumeMount, place.field("volume"), text, &label);
        }
    }

    /// The rules of a plugin task (B59).
    fn csi_plugin(&mut self, task: &Task, plugin: &CsiPluginConfig, place: &JobPlace) {
        let code = Code::JobCsiPlugin;
        if plugin.id.as_str().is_empty() {
            let text = "CSIPluginConfig must have a non-empty PluginID";
            self.error(code, place.field("id"), text, "add `id`");
        }
        if let Some(reference) = first_reference(plugin.id.as_str()) {
            let text = format!(
                "`id` of `csi_plugin` has the reference `{reference}`, and no node replaces one there: all nodes would \
                 register one plugin under this text"
            );
            self.error(code, place.field("id"), text, "write the ID out");
        }
        for (key, directory) in [
            ("mount_dir", &plugin.mount_dir),
            ("stage_publish_base_dir", &plugin.stage_publish_base_dir),
        ] {
            let path = Path::new(directory);
            let is_clean = |part: Component<'_>| !matches!(part, Component::ParentDir);
            if !path.is_absolute() || !path.components().all(is_clean) {
                let text = format!("`{key}` must be an absolute path without `..`");
                self.error(code, place.field(key), text, "expected a path such as `/csi`");
            }
        }
        let (mount, base) = (&plugin.mount_dir, &plugin.stage_publish_base_dir);
        if plain_path(base).starts_with(plain_path(mount)) {
            let text = format!(
                "CSIPluginConfig StagePublishBaseDir must not be a subdirectory of MountDir, got: \
                 StagePublishBaseDir={base:?} MountDir={mount:?}"
            );
            let label = "choose a directory outside of `mount_dir`";
            self.error(code, place.field("stage_publish_base_dir"), text, label);
        }
        let driver = task.driver.as_str();
        if CANNOT_RUN_PLUGIN.contains(&driver) {
            let text = format!("task driver \"{driver}\" cannot run a plugin");
            let label = "use `exec`, `raw_exec` or a container driver";
            self.error(Code::JobDriver, place.clone(), text, label);
        }
    }
}

/// Returns the place of a destination in a task with a root of its own, as far as it is known before the task starts.
fn place_in_task(destination: &str) -> PathBuf {
    let known = destination.replace("${NOMAD_ALLOC_DIR}", SHARED_DIRECTORY);
    Path::new("/").join(plain_path(&known))
}

/// Returns a path without `.`, repeated slashes and a slash at its end.
fn plain_path(path: &str) -> PathBuf {
    Path::new(path).components().collect()
}

/// Returns the volumes of a group for a message: a group may have many.
fn known_volumes(group: &TaskGroup) -> String {
    let names = group.volumes.keys().take(LISTED_VOLUMES);
    let listed: Vec<_> = names.map(|alias| format!("`{alias}`")).collect();
    let others = group.volumes.len() - listed.len();
    match (listed.is_empty(), others) {
        (true, _) => "the group has no volume".to_owned(),
        (false, 0) => format!("the group has {}", listed.join(", ")),
        (false, others) => format!("the group has {} and {others} more", listed.join(", ")),
    }
}
