//! Decodes tasks.

use super::fields::{FieldReader, Fields, Named};
use super::values::WordSet;
use crate::job::place::JobPlace;
use crate::job::schema;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{
    CsiPluginConfig, CsiPluginType, Lifecycle, LifecycleHook, PluginId, PropagationMode, Resources,
    RestartPolicy, SelinuxLabel, Task, VolumeAlias, VolumeMount,
};

impl<'t, 'a> FieldReader<'_> {
    /// Decodes a task. `restart` is the policy of its group.
    pub(super) fn task(
        &mut self,
        named: &Named<'t, 'a>,
        place: JobPlace,
        restart: &RestartPolicy,
    ) -> Task {
        self.places.insert(place.clone(), named.header);
        let fields = self.fields(named.object, schema::TASK, "a task", place);
        let driver = self.text(&fields, "driver").unwrap_or_default();
        let restart = self.restart(&fields, restart);
        let mut task = Task::new(&named.name, driver, restart);
        task.config = self.config(&fields);
        task.environment = self.texts(&fields, "env");
        task.meta = self.texts(&fields, "meta");
        task.user = self.text(&fields, "user").unwrap_or_default();
        task.constraints = self.constraints(&fields);
        task.kill_timeout = self
            .duration(&fields, "kill_timeout")
            .filter(|timeout| !timeout.is_zero())
            .unwrap_or(task.kill_timeout);
        task.kill_signal = self.text(&fields, "kill_signal").unwrap_or_default();
        task.lifecycle = self.lifecycle(&fields);
        task.is_leader = self.boolean(&fields, "leader").unwrap_or_default();
        task.volume_mounts = self.volume_mounts(&fields);
        task.csi_plugin = self.csi_plugin(&fields);
        task.payload_file = self.payload_file(&fields);
        task.resources = self.resources(&fields);
        task
    }

    fn lifecycle(&mut self, fields: &Fields<'t, 'a>) -> Option<Lifecycle> {
        let entry = self.single(fields, "lifecycle")?;
        let object = self.block(entry)?;
        let place = fields.place.block("lifecycle", "");
        let fields = self.fields(object, schema::LIFECYCLE, "`lifecycle`", place);
        if fields.all("hook").is_empty() {
            self.missing("hook", "lifecycle", entry.key.span, "add `hook`");
        }
        let set =
            WordSet::of(Code::JobUnknownWord, "hook", LifecycleHook::ALL, LifecycleHook::as_str);
        let hook = self.word(&fields, "hook", &set);
        let is_sidecar = self.boolean(&fields, "sidecar").unwrap_or_default();
        hook.map(|hook| Lifecycle { hook, is_sidecar })
    }

    fn missing(
        &mut self,
        key: &str,
        block: &str,
        span: nomad_csi_model::diagnostic::Span,
        label: &str,
    ) {
        let message = format!("`{key}` of `{block}` is missing");
        self.diagnostics
            .push(Diagnostic::error(Code::SpecMissingField, message).label(span, label));
    }

    fn volume_mounts(&mut self, fields: &Fields<'t, 'a>) -> Vec<VolumeMount> {
        let mut mounts = vec![];
        for entry in fields.all("volume_mount") {
            let Some(object) = self.block(entry) else {
                continue;
            };
            let place = fields.place.block("volume_mount", &mounts.len().to_string());
            self.places.insert(place.clone(), entry.key.span);
            let fields = self.fields(object, schema::VOLUME_MOUNT, "`volume_mount`", place);
            mounts.push(self.volume_mount(&fields));
        }
        mounts
    }

    fn volume_mount(&mut self, fields: &Fields<'t, 'a>) -> VolumeMount {
        let modes = WordSet::of(
            Code::JobUnknownWord,
            "propagation mode",
            PropagationMode::ALL,
            PropagationMode::as_str,
        );
        let labels = WordSet {
            code: Code::JobUnknownWord,
            kind: "SELinux label",
            words: vec![
                ("", None),
                ("z", Some(SelinuxLabel::Shared)),
                ("Z", Some(SelinuxLabel::Private)),
            ],
        };
        VolumeMount {
            volume: VolumeAlias::new(self.text(fields, "volume").unwrap_or_default()),
            destination: self.text(fields, "destination").unwrap_or_default(),
            read_only: self.boolean(fields, "read_only").unwrap_or_default(),
            propagation_mode: self
                .word(fields, "propagation_mode", &modes)
                .unwrap_or(PropagationMode::Private),
            selinux_label: self.word(fields, "selinux_label", &labels).flatten(),
        }
    }

    /// Decodes the plugin that a task is (B59).
    fn csi_plugin(&mut self, fields: &Fields<'t, 'a>) -> Option<CsiPluginConfig> {
        let entry = self.single(fields, "csi_plugin")?;
        let object = self.block(entry)?;
        let place = fields.place.block("csi_plugin", "");
        self.places.insert(place.clone(), entry.key.span);
        let fields = self.fields(object, schema::CSI_PLUGIN, "`csi_plugin`", place);
        let set = WordSet::of(
            Code::JobCsiPlugin,
            "plugin type",
            CsiPluginType::ALL,
            CsiPluginType::as_str,
        );
        if fields.all("type").is_empty() {
            let label = "add `type`: `controller`, `node` or `monolith`";
            self.missing("type", "csi_plugin", entry.key.span, label);
        }
        let plugin_type = self.word(&fields, "type", &set);
        let id = self.text(&fields, "id").unwrap_or_default();
        let mut plugin = CsiPluginConfig::new(PluginId::new(id), CsiPluginType::Node);
        let not_empty = |text: &String| !text.is_empty();
        if let Some(directory) = self.text(&fields, "mount_dir").filter(not_empty) {
            plugin.mount_dir = directory;
        }
        if let Some(directory) = self.text(&fields, "stage_publish_base_dir").filter(not_empty) {
            plugin.stage_publish_base_dir = directory;
        }
        if let Some(timeout) =
            self.duration(&fields, "health_timeout").filter(|time| !time.is_zero())
        {
            plugin.health_timeout = timeout;
        }
        plugin.plugin_type = plugin_type.unwrap_or(plugin.plugin_type);
        Some(plugin)
    }

    fn resources(&mut self, fields: &Fields<'t, 'a>) -> Resources {
        let mut resources = Resources::default();
        let Some(object) = self.single_block(fields, "resources") else {
            return resources;
        };
        let place = fields.place.block("resources", "");
        let fields = self.fields(object, schema::RESOURCES, "`resources`", place);
        for (key, amount) in [
            ("cpu", &mut resources.cpu),
            ("cores", &mut resources.cores),
            ("memory", &mut resources.memory_mb),
            ("memory_max", &mut resources.memory_max_mb),
        ] {
            *amount = self.integer(&fields, key).unwrap_or(*amount);
        }
        resources
    }
}
