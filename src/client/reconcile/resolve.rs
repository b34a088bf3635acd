//! Looks up referenced secrets right before requests are sent.
//!
//! A plan can be made without secrets; if the ledger has hashes to compare, [`known_secrets`] looks up
//! what it can. Before the first request, all secrets are resolved together, so every missing secret is
//! reported before anything changes. Each reference is looked up once per directory. Values live as long
//! as [`Resolved`].

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::secret_variables::SecretVariables;
use crate::ports::{ResolvedSecret, SecretProblem, SecretSource};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Span};
use nomad_csi_model::{
    NamespacedId, Secret, SecretRef, SecretRefs, Secrets, UnresolvedRequest, VolumeRequest,
};
use nomad_csi_spec::VolumeSpec;

/// A request whose secrets are not looked up yet.
#[derive(Clone, Debug)]
pub(super) struct Unresolved {
    /// The request.
    pub request: UnresolvedRequest,
    secrets: BTreeMap<String, SecretPlace>,
}

/// Where a secret is written.
#[derive(Clone, Debug)]
struct SecretPlace {
    span: Span,
    /// The directory of its file, where a relative path starts: a class may stand elsewhere than its volume.
    directory: PathBuf,
}

impl Unresolved {
    /// A request of a specification.
    ///
    /// `directory_at` returns the directory of the file in which a span is.
    pub(super) fn new(
        spec: &VolumeSpec,
        request: UnresolvedRequest,
        directory_at: impl Fn(Span) -> PathBuf,
    ) -> Self {
        let keys = request.secrets.iter().flat_map(SecretRefs::iter);
        let secrets = keys.map(|(key, _)| {
            let span = spec.secret_span(key);
            (key.to_owned(), SecretPlace { span, directory: directory_at(span) })
        });
        Self { secrets: secrets.collect(), request }
    }
}

/// Requests with the values of their secrets.
#[derive(Clone, Debug, Default)]
pub(super) struct Resolved {
    requests: HashMap<NamespacedId, VolumeRequest>,
    assumed_secrets: BTreeMap<NamespacedId, Secrets>,
}

impl Resolved {
    /// Returns the request of a volume, if it was resolved.
    pub(super) fn request(&self, key: &NamespacedId) -> Option<&VolumeRequest> {
        self.requests.get(key)
    }

    /// Adds secrets that are not sent: the set takes them as they are in the files.
    #[must_use]
    pub(super) fn taking(self, assumed_secrets: BTreeMap<NamespacedId, Secrets>) -> Self {
        Self { assumed_secrets, ..self }
    }

    /// Returns the secrets that the set takes as they are in the files, by volume.
    pub(super) fn assumed_secrets(&self) -> &BTreeMap<NamespacedId, Secrets> {
        &self.assumed_secrets
    }
}

/// Looks up every reference in the requests, on a thread that may block. Returns warnings too.
///
/// # Errors
/// Every secret without a value. Nothing may be sent then.
pub(super) async fn resolve(
    requests: Vec<Unresolved>,
    source: Arc<dyn SecretSource>,
    variables: SecretVariables,
) -> Result<(Resolved, Diagnostics), Diagnostics> {
    let work = tokio::task::spawn_blocking(move || resolve_all(&requests, &*source, &variables));
    work.await.unwrap_or_else(|error| {
        let message = "cannot look up secrets";
        Err(Diagnostic::error(Code::Internal, message).note(error.to_string()).into())
    })
}

/// Returns the secrets of each request whose secrets all have a value. A plan can be made without the
/// others.
pub(super) async fn known_secrets(
    requests: Vec<Unresolved>,
    source: Arc<dyn SecretSource>,
    variables: SecretVariables,
) -> BTreeMap<NamespacedId, Secrets> {
    let work = tokio::task::spawn_blocking(move || {
        let mut lookup = Lookup::new(&*source, &variables);
        let resolved = lookup.resolve_requests(&requests).into_iter();
        resolved.map(|(key, request)| (key, request.secrets.unwrap_or_default())).collect()
    });
    work.await.unwrap_or_default()
}

fn resolve_all(
    requests: &[Unresolved],
    source: &dyn SecretSource,
    variables: &SecretVariables,
) -> Result<(Resolved, Diagnostics), Diagnostics> {
    let mut lookup = Lookup::new(source, variables);
    let resolved = lookup.resolve_requests(requests);
    let failed = lookup.problems.iter().any(|problem| problem.is_error);
    let mut diagnostics: Diagnostics =
        lookup.problems.into_iter().map(Problem::diagnostic).collect();
    diagnostics.sort();
    if failed {
        Err(diagnostics)
    } else {
        let resolved = Resolved { requests: resolved, assumed_secrets: BTreeMap::new() };
        Ok((resolved, diagnostics))
    }
}

/// A problem of a reference, which several volumes may contain.
struct Problem {
    issue: SecretProblem,
    is_error: bool,
    secret: String,
    volume: NamespacedId,
    place: Option<Span>,
    others: usize,
}

impl Problem {
    fn diagnostic(self) -> Diagnostic {
        let Self { secret, volume, .. } = &self;
        let clause = &self.issue.message;
        let diagnostic = if self.is_error {
            let message = format!(
                "secret `{secret}` of volume {volume} has no value: {clause}",
                volume = volume.quoted()
            );
            Diagnostic::error(self.issue.code, message)
        } else {
            let message =
                format!("secret `{secret}` of volume {volume}: {clause}", volume = volume.quoted());
            Diagnostic::warning(self.issue.code, message)
        };
        let diagnostic = match self.place {
            Some(place) => diagnostic.label(place, "the reference"),
            None => diagnostic,
        };
        match self.others {
            0 => diagnostic,
            1 => diagnostic.note("1 other secret has the same reference"),
            others => diagnostic.note(format!("{others} other secrets have the same reference")),
        }
        .help(self.issue.code.advice())
    }
}

/// Looks up each reference once.
struct Lookup<'s> {
    source: &'s dyn SecretSource,
    variables: &'s SecretVariables,
    /// By source, reference, and directory or namespace: the value, and the index of its problem.
    found: HashMap<(&'static str, String, PathBuf), CachedSecret>,
    problems: Vec<Problem>,
}

#[derive(Clone)]
struct CachedSecret {
    value: Option<Secret>,
    problem: Option<usize>,
}

impl<'s> Lookup<'s> {
    fn new(source: &'s dyn SecretSource, variables: &'s SecretVariables) -> Self {
        Self { source, variables, found: HashMap::new(), problems: vec![] }
    }

    /// Returns the requests whose secrets all have a value.
    fn resolve_requests(
        &mut self,
        requests: &[Unresolved],
    ) -> HashMap<NamespacedId, VolumeRequest> {
        let mut resolved = HashMap::new();
        for desired in requests {
            let id = desired.request.key();
            let request =
                desired.request.resolve(|key, reference| self.value(desired, &id, key, reference));
            if let Ok(request) = request {
                resolved.insert(id, request);
            }
        }
        resolved
    }

    fn find(
        &self,
        desired: &Unresolved,
        directory: &Path,
        reference: &SecretRef,
    ) -> Result<ResolvedSecret, SecretProblem> {
        let SecretRef::NomadVar { path, key } = reference else {
            return self.source.resolve(reference, directory);
        };
        let value = self.variables.find(&desired.request.namespace, path, key)?;
        Ok(ResolvedSecret { value, warning: None })
    }

    fn value(
        &mut self,
        desired: &Unresolved,
        volume: &NamespacedId,
        key: &str,
        reference: &SecretRef,
    ) -> Result<Secret, ()> {
        let place = desired.secrets.get(key);
        let directory = place.map(|place| place.directory.clone()).unwrap_or_default();
        let address = match reference {
            SecretRef::Literal(value) | SecretRef::Evaluated(value) => return Ok(value.clone()),
            SecretRef::Env(name) => ("env", name.clone(), PathBuf::new()),
            SecretRef::File(path) => ("file", path.clone(), directory.clone()),
            SecretRef::NomadVar { path, key } => {
                let namespace = desired.request.namespace.as_str();
                ("nomad_var", format!("{path}\0{key}"), namespace.into())
            }
        };
        if let Some(found) = self.found.get(&address).cloned() {
            if let Some(problem) = found.problem.and_then(|at| self.problems.get_mut(at)) {
                problem.others += 1;
            }
            return found.value.ok_or(());
        }
        let (value, issue) = match self.find(desired, &directory, reference) {
            Ok(found) => (Some(found.value), found.warning),
            Err(issue) => (None, Some(issue)),
        };
        let problem = issue.map(|issue| {
            self.problems.push(Problem {
                issue,
                is_error: value.is_none(),
                secret: key.to_owned(),
                volume: volume.clone(),
                place: place.map(|place| place.span),
                others: 0,
            });
            self.problems.len() - 1
        });
        let found = CachedSecret { value, problem };
        self.found.insert(address, found.clone());
        found.value.ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::ResolvedSecret;
    use nomad_csi_model::Namespace;
    use nomad_csi_model::diagnostic::{Severity, SourceMap};
    use nomad_csi_spec::{Defaults, Syntax, parse};

    use parking_lot::Mutex;

    /// Has variables that start with `SET`, and files in `/specs`.
    #[derive(Default)]
    struct Source(Mutex<Vec<String>>);

    impl SecretSource for Source {
        fn resolve(
            &self,
            from: &SecretRef,
            directory: &Path,
        ) -> Result<ResolvedSecret, SecretProblem> {
            self.0.lock().push(format!("{from:?}"));
            let remark = |code, clause: &str| SecretProblem { code, message: clause.into() };
            let found = |value: &str, warning| {
                Ok(ResolvedSecret { value: Secret::new(value.into()), warning })
            };
            match from {
                SecretRef::Env(name) if name.starts_with("SET") => found("canary-env", None),
                SecretRef::File(path) if directory == Path::new("/specs") => {
                    let warned = path == "open";
                    let warning = warned.then(|| remark(Code::SecretExposed, "it is open"));
                    found("canary-file", warning)
                }
                _ => Err(remark(Code::SecretUnset, "there is none")),
            }
        }
    }

    fn unresolved(volumes: &str, directory: &str) -> Vec<Unresolved> {
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        let source = sources.add("volumes.hcl", volumes);
        let defaults = Defaults { namespace: Namespace::default() };
        let specs = parse(&mut sources, source, Syntax::Hcl, &defaults, &mut diagnostics);
        let error = diagnostics.iter().find(|one| one.severity == Severity::Error);
        assert_eq!(error, None, "{volumes}");
        let of =
            |spec: &VolumeSpec| Unresolved::new(spec, spec.request.clone(), |_| directory.into());
        specs.iter().map(of).collect()
    }

    fn no_variables() -> SecretVariables {
        SecretVariables::default()
    }

    fn volume(id: &str, secrets: &str) -> String {
        format!(
            "volume \"{id}\" {{\n type = \"csi\"\n plugin_id = \"p\"\n secrets {{ {secrets} }}\n}}\n"
        )
    }

    #[test]
    fn all_missing_secrets_are_reported_once() {
        let text = [
            volume("a", "x = env(\"GONE\")\n y = env(\"SET\")"),
            volume("b", "x = env(\"GONE\")\n z = file(\"open\")"),
            volume("c", "x = env(\"GONE\")\n z = \"canary-literal\""),
        ]
        .concat();
        let source = Source::default();
        let issues =
            resolve_all(&unresolved(&text, "/elsewhere"), &source, &no_variables()).unwrap_err();
        let reported: Vec<_> = issues
            .iter()
            .map(|one| (one.code, one.message.as_str(), one.labels.len(), one.notes.len()))
            .collect();
        assert_eq!(
            reported,
            [
                (Code::SecretUnset, "secret `x` of volume `a` has no value: there is none", 1, 1),
                (Code::SecretUnset, "secret `z` of volume `b` has no value: there is none", 1, 0),
            ]
        );
        assert_eq!(source.0.lock().len(), 3, "each is looked up once");
        assert!(!format!("{issues:?}").contains("canary"));
    }

    #[test]
    fn values_are_sent_and_never_shown() {
        let text = volume("a", "x = env(\"SET\")\n y = file(\"open\")\n z = \"canary-literal\"");
        let desired = unresolved(&text, "/specs");
        let key = desired[0].request.key();
        let (resolved, issues) =
            resolve_all(&desired, &Source::default(), &no_variables()).unwrap();
        let secrets = resolved.request(&key).unwrap().secrets.as_ref().unwrap();
        let exposed: Vec<_> = secrets.expose().collect();
        assert_eq!(exposed, [("x", "canary-env"), ("y", "canary-file"), ("z", "canary-literal")]);
        let warnings: Vec<_> = issues.iter().map(|one| (one.severity, one.code)).collect();
        assert_eq!(warnings, [(Severity::Warning, Code::SecretExposed)]);
        assert!(!format!("{resolved:?} {issues:?}").contains("canary"));
    }
}
