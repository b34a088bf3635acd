//! Checks the rules within one specification and across all of them, without a server.
//!
//! Errors for what can never work; warnings for what Nomad accepts and ignores (W13, W23, W49).
//! `decode` checks single values, such as modes and sizes; this file checks the rules between them.
//! All problems are reported together.

use std::collections::{BTreeMap, HashMap};

use super::repeated::RepeatedProblems;
use super::volume_spec::{Purpose, VolumeSpec};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Span};
use nomad_csi_model::{
    AttachmentMode, ExternalId, Namespace, NamespacedId, PluginId, SecretRefs, SetName,
};

/// CSI's limit of a string, in bytes ("Size Limits").
const MAX_TEXT: usize = 128;

/// Checks every specification by the rules of its purpose, and all of them together. [`single_set`]
/// checks their set.
pub fn validate(specs: &[VolumeSpec], purpose: Purpose, diagnostics: &mut Diagnostics) {
    let mut repeated: Option<(Span, RepeatedProblems)> = None;
    for spec in specs {
        let generated = spec.origin.as_ref().filter(|origin| origin.instance.is_some());
        let is_next =
            repeated.as_ref().is_some_and(|(block, _)| generated.is_some() && *block == spec.span);
        if !is_next && let Some((_, problems)) = repeated.take() {
            diagnostics.extend(problems.into_diagnostics());
        }
        let mut found = Diagnostics::default();
        let mut rules = Rules { spec, diagnostics: &mut found };
        rules.names();
        rules.capabilities();
        rules.capacity();
        rules.content_source();
        rules.secrets();
        if purpose.creates(spec) {
            rules.creation();
        } else {
            rules.registration();
        }
        if found.is_empty() {
            continue;
        }
        match (generated, &spec.origin) {
            (Some(origin), _) => {
                let (_, problems) =
                    repeated.get_or_insert_with(|| (spec.span, RepeatedProblems::default()));
                problems.add(spec.request.id.as_str(), origin, found);
            }
            (None, Some(_)) => {
                diagnostics.extend(found.map(|problem| spec.explain(problem)));
            }
            (None, None) => diagnostics.extend(found),
        }
    }
    if let Some((_, problems)) = repeated {
        diagnostics.extend(problems.into_diagnostics());
    }
    unique_volumes(specs, diagnostics);
    unique_names(specs, purpose, diagnostics);
}

/// The rules of one specification.
struct Rules<'s> {
    spec: &'s VolumeSpec,
    diagnostics: &'s mut Diagnostics,
}

impl Rules<'_> {
    fn error(&mut self, code: Code, message: String, field: &str, label: &str) {
        let span = self.spec.field_span(field);
        self.diagnostics.push(Diagnostic::error(code, message).label(span, label));
    }

    fn warning(&mut self, code: Code, message: String, field: &str, label: &str) {
        let span = self.spec.field_span(field);
        self.diagnostics.push(Diagnostic::warning(code, message).label(span, label));
    }

    /// Returns the volume's name in messages.
    fn volume(&self) -> String {
        if self.spec.request.id.as_str().is_empty() {
            return "this volume".to_owned();
        }
        format!("volume {}", self.spec.key().quoted())
    }

    fn is_given(&self, field: &str) -> bool {
        self.spec.fields.contains_key(field)
    }

    fn names(&mut self) {
        let request = &self.spec.request;
        let id_is_given = !request.id.as_str().is_empty() || self.is_given("id");
        if let Some(problem) = request.id.problem_in_specification().filter(|_| id_is_given) {
            let message = format!("invalid volume ID `{}`: {problem}", request.id);
            self.error(Code::SpecVolumeId, message, "id", "");
        }
        if !is_namespace(&request.namespace) {
            let message = format!("invalid namespace `{}`", request.namespace);
            let label = "a namespace has up to 128 letters, digits and hyphens";
            self.error(Code::SpecNamespace, message, "namespace", label);
        }
        let length = request.name.as_deref().map_or(0, str::len);
        if length > MAX_TEXT {
            let message = format!("the name of {} is too long: {length} bytes", self.volume());
            self.error(Code::SpecNameTooLong, message, "name", "CSI allows 128 bytes");
        }
    }

    /// Warns about values of secrets in the file. An empty value is no secret.
    fn secrets(&mut self) {
        let secrets = self.spec.request.secrets.iter().flat_map(SecretRefs::iter);
        let literal: Vec<&str> = secrets
            .filter(|(_, secret)| secret.literal().is_some_and(|value| !value.is_empty()))
            .map(|(key, _)| key)
            .collect();
        let message = match literal.as_slice() {
            [] => return,
            [only] => format!("secret `{only}` of {} is a literal value", self.volume()),
            several => format!(
                "{} secrets of {} are literal values: {}",
                several.len(),
                self.volume(),
                several.join(", ")
            ),
        };
        let warning = Diagnostic::warning(Code::SpecLiteralSecret, message);
        let warning = literal
            .iter()
            .fold(warning, |warning, key| warning.label(self.spec.secret_span(key), ""));
        let help =
            "use `env(…)`, `file(…)` or `nomad_var(…)`; `nomad-csi explain secrets` describes them";
        self.diagnostics.push(warning.help(help));
    }

    fn capabilities(&mut self) {
        let spec = self.spec;
        let capabilities = &spec.request.capabilities;
        if capabilities.is_empty() {
            if !self.is_given("capability") {
                let message = format!("{} has no capability", self.volume());
                let label = "add a `capability` block";
                self.error(Code::SpecNoCapability, message, "capability", label);
            }
            return;
        }
        for (at, capability) in capabilities.iter().enumerate() {
            if let Some(first) = capabilities[..at].iter().position(|other| other == capability) {
                let message = format!("duplicate capability `{capability}`");
                let place = |at: usize| spec.capability_spans.get(at).copied().unwrap_or(spec.span);
                let diagnostic = Diagnostic::error(Code::SpecDuplicateCapability, message)
                    .label(place(at), "repeated here");
                // All uses of a YAML alias have the position of its anchor.
                self.diagnostics.push(if place(first) == place(at) {
                    diagnostic
                } else {
                    diagnostic.label(place(first), "first here")
                });
            }
        }
        self.mount_options();
        self.read_only();
    }

    fn mount_options(&mut self) {
        let request = &self.spec.request;
        let is_block = |mode| mode == AttachmentMode::BlockDevice;
        let only_block = request.capabilities.iter().all(|one| is_block(one.attachment_mode));
        if only_block && request.mount_options.as_ref().is_some_and(|options| !options.is_empty()) {
            let message =
                format!("{} is a block device, which cannot have mount options", self.volume());
            let label = "remove the mount options";
            self.error(Code::SpecBlockMountOptions, message, "mount_options", label);
        }
    }

    fn read_only(&mut self) {
        let capabilities = &self.spec.request.capabilities;
        let writing = |allowed| {
            let mut modes = capabilities.iter().map(|one| one.access_mode);
            modes.all(|mode| mode.allows_writes() == allowed)
        };
        let (message, label) = match self.spec.read_only {
            Some(true) if writing(true) => (
                "`read_only` is `true`, but every access mode allows writing",
                "add a capability with access mode `single-node-reader-only` or `multi-node-reader-only`",
            ),
            Some(false) if writing(false) => (
                "`read_only` is `false`, but every access mode is read-only",
                "add a capability with an access mode that allows writing",
            ),
            Some(_) | None => return,
        };
        self.error(Code::SpecReadOnly, message.to_owned(), "read_only", label);
    }

    fn capacity(&mut self) {
        let capacity = self.spec.request.capacity;
        if !capacity.max.is_zero() && capacity.min > capacity.max {
            let message = format!(
                "`capacity_min` ({}) is greater than `capacity_max` ({})",
                capacity.min, capacity.max
            );
            let [min, max] = ["capacity_min", "capacity_max"].map(|key| self.spec.field_span(key));
            self.diagnostics.push(
                Diagnostic::error(Code::SpecMinAboveMax, message)
                    .label(min, format!("{} bytes", capacity.min.get()))
                    .label(max, format!("{} bytes", capacity.max.get())),
            );
        }
    }

    fn content_source(&mut self) {
        let request = &self.spec.request;
        if request.snapshot_id.is_some() && request.clone_id.is_some() {
            let message = format!("{} has both `snapshot_id` and `clone_id`", self.volume());
            let [snapshot, clone] =
                ["snapshot_id", "clone_id"].map(|key| self.spec.field_span(key));
            self.diagnostics.push(
                Diagnostic::error(Code::SpecTwoContentSources, message)
                    .label(clone, "a volume has one source")
                    .label(snapshot, ""),
            );
        }
    }

    /// The rules of a volume to create.
    fn creation(&mut self) {
        let request = &self.spec.request;
        let volume = self.volume();
        if request.name.is_none() && !self.is_given("name") {
            let message = format!("`name` is required to create {volume}");
            self.error(Code::SpecNameRequired, message, "name", "add a `name`");
        }
        if request.context.is_some() {
            let message = format!(
                "the `context` of {volume} has no effect: the provider sets it when it creates the volume"
            );
            self.warning(Code::SpecContextOnCreate, message, "context", "no effect");
        }
        if request.external_id.is_some() {
            let message = format!(
                "the `external_id` of {volume} has no effect: the provider sets it when it creates the volume"
            );
            let label = "the provider sets this ID";
            self.warning(Code::SpecExternalIdOnCreate, message, "external_id", label);
        }
    }

    /// The rules of a volume to register.
    fn registration(&mut self) {
        let request = &self.spec.request;
        let volume = self.volume();
        if request.external_id.is_none() {
            let message =
                format!("{volume} has no `external_id`: its ID is used as the external ID");
            let label = "used as the external ID";
            self.warning(Code::SpecRegisterWithoutExternalId, message, "id", label);
        }
        for (field, given) in [
            ("snapshot_id", request.snapshot_id.is_some()),
            ("clone_id", request.clone_id.is_some()),
        ] {
            if given {
                let message =
                    format!("the `{field}` of {volume} has no effect: registering copies no data");
                let code = Code::SpecContentSourceOnRegister;
                self.warning(code, message, field, "recorded only");
            }
        }
    }
}

/// Returns whether a namespace's name is valid in Nomad.
fn is_namespace(namespace: &Namespace) -> bool {
    let text = namespace.as_str();
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !text.is_empty() && text.len() <= MAX_TEXT && text.chars().all(valid)
}

/// Returns the set of all files. Two different sets are an error.
pub fn single_set<'s>(
    sets: &'s [(SetName, Span)],
    diagnostics: &mut Diagnostics,
) -> Option<&'s (SetName, Span)> {
    let mut named = sets.iter();
    let set = named.next()?;
    let (first, place) = set;
    for (other, again) in named.filter(|(other, _)| other != first) {
        let message =
            format!("the files name two sets, `{first}` and `{other}`: a command manages one");
        diagnostics.push(
            Diagnostic::error(Code::SpecTwoSets, message)
                .label(*again, "another set here")
                .label(*place, "first here")
                .help("name the files of one set; `validate`, `plan` and `apply` also take several directories, each with one set"),
        );
    }
    Some(set)
}

fn unique_volumes(specs: &[VolumeSpec], diagnostics: &mut Diagnostics) {
    let mut seen: HashMap<NamespacedId, Span> = HashMap::with_capacity(specs.len());
    // Volumes of one block, and of a YAML alias, have one position.
    let mut of_one_place: BTreeMap<(Span, NamespacedId), usize> = BTreeMap::new();
    let named = specs.iter().filter(|spec| !spec.request.id.as_str().is_empty());
    for spec in named {
        let place = spec.field_span("id");
        let key = spec.key();
        let Some(first) = seen.get(&key).copied() else {
            seen.insert(key, place);
            continue;
        };
        if first == place {
            *of_one_place.entry((place, key)).or_insert(1) += 1;
            continue;
        }
        let message = format!("volume {} is declared twice", key.quoted());
        diagnostics.push(
            Diagnostic::error(Code::SpecDuplicateVolume, message)
                .label(place, "repeated here")
                .label(first, "first here"),
        );
    }
    for ((place, key), count) in of_one_place {
        let message = format!("volume {} is declared {count} times by one block", key.quoted());
        let problem = Diagnostic::error(Code::SpecDuplicateVolume, message).label(place, "");
        diagnostics.push(problem.help("use `count.index` or `each.key` in it"));
    }
}

/// Reports specifications that register the same data again, and that the user does not name with `--share`. `share`
/// holds `ID` or `NAMESPACE/ID`.
pub fn second_registrations(specs: &[VolumeSpec], share: &[String], diagnostics: &mut Diagnostics) {
    let mut seen: HashMap<(&PluginId, &ExternalId), &VolumeSpec> = HashMap::new();
    let mut of_blocks: BTreeMap<Span, RepeatedProblems> = BTreeMap::new();
    for spec in specs {
        let Some(external_id) = &spec.request.external_id else {
            continue;
        };
        let first = *seen.entry((&spec.request.plugin_id, external_id)).or_insert(spec);
        let key = spec.key();
        if first.key() == key || share.iter().any(|name| key.is_named(name)) {
            continue;
        }
        let message =
            format!("volume {} has the same data as volume {}", key.quoted(), first.key().quoted());
        let problem = Diagnostic::error(Code::VolumeShared, message)
            .label(spec.field_span("external_id"), "the same external ID again")
            .label(first.field_span("external_id"), "first here")
            .note("both can be written at the same time, whatever their capabilities allow, and deleting one deletes the data of both");
        let problem = problem.help(format!(
            "remove one of them, or add `--share {}` if the storage is made for that, such as an NFS export",
            key.option()
        ));
        match spec.origin.as_ref().filter(|origin| origin.instance.is_some()) {
            Some(origin) => {
                let problems = of_blocks.entry(spec.span).or_default();
                problems.add(spec.request.id.as_str(), origin, problem.into());
            }
            None => diagnostics.push(spec.explain(problem)),
        }
    }
    for problems in of_blocks.into_values() {
        diagnostics.extend(problems.into_diagnostics());
    }
}

/// Reports equal names: providers identify a new volume by its name, so on Nomad two volumes of
/// one name become one (W13).
pub fn unique_names(specs: &[VolumeSpec], purpose: Purpose, diagnostics: &mut Diagnostics) {
    let mut seen: HashMap<(&PluginId, &str), &VolumeSpec> = HashMap::with_capacity(specs.len());
    let mut of_blocks: BTreeMap<Span, RepeatedProblems> = BTreeMap::new();
    for spec in specs.iter().filter(|spec| purpose.creates(spec)) {
        let Some(name) = spec.request.name.as_deref() else {
            continue;
        };
        let first = *seen.entry((&spec.request.plugin_id, name)).or_insert(spec);
        if first.key() == spec.key() {
            continue;
        }
        let message =
            format!("volumes `{}` and `{}` have the same name, `{name}`", first.key(), spec.key());
        // In one block it is a name that should have the index or key, and not what someone wants.
        let is_of_one_block = first.span == spec.span && first.origin.is_some();
        let problem = match is_of_one_block {
            true => Diagnostic::error(Code::SpecNameTwice, message)
                .help("use `count.index`, `each.key` or `volume.key` in the name"),
            false => Diagnostic::warning(Code::SpecNameTwice, message),
        };
        let problem = problem
            .label(spec.field_span("name"), "repeated here")
            .label(first.field_span("name"), "first here");
        match spec.origin.as_ref().filter(|origin| origin.instance.is_some()) {
            Some(origin) => {
                let problems = of_blocks.entry(spec.span).or_default();
                problems.add(spec.request.id.as_str(), origin, problem.into());
            }
            None => diagnostics.push(spec.explain(problem)),
        }
    }
    for problems in of_blocks.into_values() {
        diagnostics.extend(problems.into_diagnostics());
    }
}

#[cfg(test)]
mod tests;
