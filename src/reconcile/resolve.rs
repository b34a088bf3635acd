//! Secrets by reference, looked up at the last moment.
//!
//! A plan can be made without the secrets; where the ledger has hashes to hold them against, it looks
//! up what it can ([`known_secrets`]). Right before the first request is sent,
//! everything that is about to be sent is resolved at once, so that a variable that is not set is told
//! before anything was changed, together with all others. Each reference is looked up once per
//! directory, also if many volumes have it. The values live as long as [`Resolved`] does.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span};
use crate::model::{
    NamespacedId, Secret, SecretRef, SecretRefs, Secrets, UnresolvedRequest, VolumeRequest,
};
use crate::ports::{SecretProblem, SecretSource};
use crate::spec::VolumeSpec;

/// A request that is about to be sent.
#[derive(Clone, Debug)]
pub struct Unresolved {
    /// What is to be sent.
    pub request: UnresolvedRequest,
    /// Where relative paths in it start from: the directory of its specification.
    pub directory: PathBuf,
    places: BTreeMap<String, Span>,
}

impl Unresolved {
    /// A request of this specification.
    pub fn new(spec: &VolumeSpec, request: UnresolvedRequest, directory: PathBuf) -> Self {
        let keys = request.secrets.iter().flat_map(SecretRefs::iter);
        let places = keys.map(|(key, _)| (key.to_owned(), spec.secret_span(key)));
        Self {
            places: places.collect(),
            request,
            directory,
        }
    }
}

/// Requests with their secrets in the clear, ready to be sent.
#[derive(Clone, Debug, Default)]
pub struct Resolved(BTreeMap<NamespacedId, VolumeRequest>);

impl Resolved {
    /// The request of that volume, if it was resolved.
    pub fn request(&self, key: &NamespacedId) -> Option<&VolumeRequest> {
        self.0.get(key)
    }
}

/// Looks up every reference in these requests, on a thread that may block. Warnings come beside the
/// result.
///
/// # Errors
/// Everything that has no value; then nothing may be sent.
pub async fn resolve(
    requests: Vec<Unresolved>,
    source: Arc<dyn SecretSource>,
) -> Result<(Resolved, Diagnostics), Diagnostics> {
    let work = tokio::task::spawn_blocking(move || resolve_all(&requests, &*source));
    work.await.unwrap_or_else(|error| {
        let message = "the secrets could not be looked up";
        Err(Diagnostic::error(Code::Internal, message)
            .note(error.to_string())
            .into())
    })
}

/// The secrets of these requests, as far as all of a request's can be had: for a plan, which can be
/// made without them and says nothing of what is missing.
pub async fn known_secrets(
    requests: Vec<Unresolved>,
    source: Arc<dyn SecretSource>,
) -> BTreeMap<NamespacedId, Secrets> {
    let work = tokio::task::spawn_blocking(move || {
        let mut lookup = Lookup::new(&*source);
        let resolved = lookup.each(&requests).into_iter();
        resolved
            .map(|(key, request)| (key, request.secrets.unwrap_or_default()))
            .collect()
    });
    work.await.unwrap_or_default()
}

fn resolve_all(
    requests: &[Unresolved],
    source: &dyn SecretSource,
) -> Result<(Resolved, Diagnostics), Diagnostics> {
    let mut lookup = Lookup::new(source);
    let resolved = lookup.each(requests);
    let failed = lookup.remarks.iter().any(|remark| remark.is_error);
    let mut diagnostics: Diagnostics = lookup.remarks.into_iter().map(Remark::told).collect();
    diagnostics.sort();
    if failed {
        Err(diagnostics)
    } else {
        Ok((Resolved(resolved), diagnostics))
    }
}

/// What was said of a reference, which may stand in many volumes.
struct Remark {
    said: SecretProblem,
    is_error: bool,
    secret: String,
    volume: NamespacedId,
    place: Option<Span>,
    others: usize,
}

impl Remark {
    fn told(self) -> Diagnostic {
        let Self { secret, volume, .. } = &self;
        let clause = &self.said.message;
        let diagnostic = if self.is_error {
            let message =
                format!("the secret `{secret}` of volume {volume} has no value: {clause}");
            Diagnostic::error(self.said.code, message)
        } else {
            let message = format!("the secret `{secret}` of volume {volume}: {clause}");
            Diagnostic::warning(self.said.code, message)
        };
        let diagnostic = match self.place {
            Some(place) => diagnostic.label(place, "referred to here"),
            None => diagnostic,
        };
        match self.others {
            0 => diagnostic,
            1 => diagnostic.note("one other secret refers to the same"),
            others => diagnostic.note(format!("{others} other secrets refer to the same")),
        }
        .help(self.said.code.remedy())
    }
}

/// Looks up each reference once.
struct Lookup<'s> {
    source: &'s dyn SecretSource,
    /// By source, what it is asked for, and the directory: the value, or which remark says why there
    /// is none; and which remark warns of it.
    found: HashMap<(&'static str, String, PathBuf), Found>,
    remarks: Vec<Remark>,
}

#[derive(Clone)]
struct Found {
    value: Option<Secret>,
    remark: Option<usize>,
}

impl<'s> Lookup<'s> {
    fn new(source: &'s dyn SecretSource) -> Self {
        Self {
            source,
            found: HashMap::new(),
            remarks: vec![],
        }
    }

    /// The requests of which nothing is missing.
    fn each(&mut self, requests: &[Unresolved]) -> BTreeMap<NamespacedId, VolumeRequest> {
        let mut resolved = BTreeMap::new();
        for wanted in requests {
            let id = wanted.request.key();
            let request = wanted
                .request
                .resolve(|key, reference| self.value(wanted, &id, key, reference));
            if let Ok(request) = request {
                resolved.insert(id, request);
            }
        }
        resolved
    }

    fn value(
        &mut self,
        wanted: &Unresolved,
        volume: &NamespacedId,
        key: &str,
        reference: &SecretRef,
    ) -> Result<Secret, ()> {
        let address = match reference {
            SecretRef::Literal(value) => return Ok(value.clone()),
            SecretRef::Env(name) => ("env", name.clone(), PathBuf::new()),
            SecretRef::File(path) => ("file", path.clone(), wanted.directory.clone()),
        };
        if let Some(found) = self.found.get(&address).cloned() {
            if let Some(remark) = found.remark.and_then(|at| self.remarks.get_mut(at)) {
                remark.others += 1;
            }
            return found.value.ok_or(());
        }
        let (value, said) = match self.source.resolve(reference, &wanted.directory) {
            Ok(found) => (Some(found.value), found.warning),
            Err(said) => (None, Some(said)),
        };
        let remark = said.map(|said| {
            self.remarks.push(Remark {
                said,
                is_error: value.is_none(),
                secret: key.to_owned(),
                volume: volume.clone(),
                place: wanted.places.get(key).copied(),
                others: 0,
            });
            self.remarks.len() - 1
        });
        let found = Found { value, remark };
        self.found.insert(address, found.clone());
        found.value.ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::{Severity, SourceMap};
    use crate::model::Namespace;
    use crate::ports::ResolvedSecret;
    use crate::spec::{Defaults, Syntax, parse};
    use std::path::Path;
    use std::sync::Mutex;

    /// Has variables that start with `SET`, and files in `/specs`.
    #[derive(Default)]
    struct Source(Mutex<Vec<String>>);

    impl SecretSource for Source {
        fn resolve(
            &self,
            from: &SecretRef,
            directory: &Path,
        ) -> Result<ResolvedSecret, SecretProblem> {
            self.0.lock().unwrap().push(format!("{from:?}"));
            let remark = |code, clause: &str| SecretProblem {
                code,
                message: clause.into(),
            };
            let found = |value: &str, warning| {
                Ok(ResolvedSecret {
                    value: Secret::new(value.into()),
                    warning,
                })
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
        let defaults = Defaults {
            namespace: Namespace::default(),
        };
        let specs = parse(
            &mut sources,
            source,
            Syntax::Hcl,
            &defaults,
            &mut diagnostics,
        );
        let error = diagnostics
            .iter()
            .find(|one| one.severity == Severity::Error);
        assert_eq!(error, None, "{volumes}");
        let of = |spec: &VolumeSpec| Unresolved::new(spec, spec.request.clone(), directory.into());
        specs.iter().map(of).collect()
    }

    fn volume(id: &str, secrets: &str) -> String {
        format!(
            "volume \"{id}\" {{\n type = \"csi\"\n plugin_id = \"p\"\n secrets {{ {secrets} }}\n}}\n"
        )
    }

    #[test]
    fn everything_missing_is_told_at_once_and_once() {
        let text = [
            volume("a", "x = env(\"GONE\")\n y = env(\"SET\")"),
            volume("b", "x = env(\"GONE\")\n z = file(\"open\")"),
            volume("c", "x = env(\"GONE\")\n z = \"canary-literal\""),
        ]
        .concat();
        let source = Source::default();
        let said = resolve_all(&unresolved(&text, "/elsewhere"), &source).unwrap_err();
        let told: Vec<_> = said
            .iter()
            .map(|one| {
                (
                    one.code,
                    one.message.as_str(),
                    one.labels.len(),
                    one.notes.len(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                (
                    Code::SecretUnset,
                    "the secret `x` of volume a has no value: there is none",
                    1,
                    1
                ),
                (
                    Code::SecretUnset,
                    "the secret `z` of volume b has no value: there is none",
                    1,
                    0
                ),
            ]
        );
        assert_eq!(source.0.lock().unwrap().len(), 3, "each is looked up once");
        assert!(!format!("{said:?}").contains("canary"));
    }

    #[test]
    fn what_has_a_value_is_sent_with_it_and_shown_without() {
        let text = volume(
            "a",
            "x = env(\"SET\")\n y = file(\"open\")\n z = \"canary-literal\"",
        );
        let wanted = unresolved(&text, "/specs");
        let key = wanted[0].request.key();
        let (resolved, said) = resolve_all(&wanted, &Source::default()).unwrap();
        let secrets = resolved.request(&key).unwrap().secrets.as_ref().unwrap();
        let exposed: Vec<_> = secrets.expose().collect();
        assert_eq!(
            exposed,
            [
                ("x", "canary-env"),
                ("y", "canary-file"),
                ("z", "canary-literal")
            ]
        );
        let warnings: Vec<_> = said.iter().map(|one| (one.severity, one.code)).collect();
        assert_eq!(warnings, [(Severity::Warning, Code::SecretExposed)]);
        assert!(!format!("{resolved:?} {said:?}").contains("canary"));
    }
}
