//! Reads the Nomad variables that secrets refer to, each once, before values are looked up.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, stream};

use crate::ports::{ApiError, SecretProblem, VariableReader};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Namespace, Secret, SecretRef, SecretRefs, Secrets, UnresolvedRequest};

/// The largest number of variables that are read at the same time.
const MAX_CONCURRENT_READS: usize = 8;

/// The items of variables, by namespace and path.
#[derive(Debug, Default)]
pub(super) struct SecretVariables(BTreeMap<(Namespace, String), Result<Option<Secrets>, ApiError>>);

impl SecretVariables {
    /// Reads every variable that the secrets of these requests refer to. A failure is the problem of the
    /// secrets that need the variable.
    pub(super) async fn read(
        reader: &dyn VariableReader,
        requests: impl IntoIterator<Item = &UnresolvedRequest>,
    ) -> Self {
        let desired: BTreeSet<(Namespace, String)> = requests
            .into_iter()
            .flat_map(|request| {
                let paths = variable_paths(request);
                paths.map(|path| (request.namespace.clone(), path.to_owned()))
            })
            .collect();
        let reads = stream::iter(desired).map(async |(namespace, path)| {
            let found = reader.variable_items(&namespace, &path).await;
            ((namespace, path), found)
        });
        Self(reads.buffer_unordered(MAX_CONCURRENT_READS).collect().await)
    }

    /// Returns the value of an item.
    ///
    /// # Errors
    /// If the variable could not be read, or has no value there.
    pub(super) fn find(
        &self,
        namespace: &Namespace,
        path: &str,
        key: &str,
    ) -> Result<Secret, SecretProblem> {
        let problem = |code, message: String| Err(SecretProblem { code, message });
        let variable = format!("the Nomad variable `{path}` in namespace `{namespace}`");
        let items = match self.0.get(&(namespace.clone(), path.to_owned())) {
            Some(Ok(Some(items))) => items,
            Some(Ok(None)) => {
                return problem(Code::SecretUnset, format!("{variable} does not exist"));
            }
            Some(Err(error)) if error.code == Code::ApiForbidden => {
                let message = format!("the token may not read {variable}");
                return problem(Code::AclMissingPermission, message);
            }
            Some(Err(error)) => return problem(error.code, error.message.clone()),
            None => return problem(Code::SecretUnset, format!("{variable} was not read")),
        };
        match items.expose().find(|(found, _)| *found == key) {
            Some((_, "")) => {
                problem(Code::SecretEmpty, format!("item `{key}` of {variable} is empty"))
            }
            Some((_, value)) => Ok(Secret::new(value.to_owned())),
            None => problem(Code::SecretUnset, format!("{variable} has no item `{key}`")),
        }
    }
}

/// Returns the paths of the variables that the secrets of a request refer to.
fn variable_paths(request: &UnresolvedRequest) -> impl Iterator<Item = &str> {
    let secrets = request.secrets.iter().flat_map(SecretRefs::iter);
    secrets.filter_map(|(_, reference)| match reference {
        SecretRef::NomadVar { path, .. } => Some(path.as_str()),
        SecretRef::Literal(_)
        | SecretRef::Evaluated(_)
        | SecretRef::Env(_)
        | SecretRef::File(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use nomad_csi_model::{NamespacedId, PluginId, VolumeId};

    /// Has the variable `ebs` in the default namespace.
    struct Server;

    #[async_trait]
    impl VariableReader for Server {
        async fn variable_items(
            &self,
            namespace: &Namespace,
            path: &str,
        ) -> Result<Option<Secrets>, ApiError> {
            let is_there = *namespace == Namespace::default() && path == "ebs";
            Ok(is_there.then(|| Secrets::from_iter([("token", "hunter2"), ("none", "")])))
        }
    }

    #[tokio::test]
    async fn an_item_is_read_in_the_namespace_of_the_volume() {
        let request = |namespace: &str, path: &str| {
            let key = NamespacedId::new(Namespace::new(namespace), VolumeId::new("db"));
            let reference = SecretRef::NomadVar { path: path.to_owned(), key: "token".to_owned() };
            UnresolvedRequest {
                secrets: Some(SecretRefs::from_iter([("token", reference)])),
                ..UnresolvedRequest::new(key, PluginId::new("p"), vec![])
            }
        };
        let requests =
            [request("default", "ebs"), request("default", "gone"), request("prod", "ebs")];
        let read = SecretVariables::read(&Server, &requests).await;
        for (namespace, path, key, expected) in [
            ("default", "ebs", "token", Ok("hunter2")),
            ("default", "ebs", "none", Err(Code::SecretEmpty)),
            ("default", "ebs", "other", Err(Code::SecretUnset)),
            ("default", "gone", "token", Err(Code::SecretUnset)),
            ("prod", "ebs", "token", Err(Code::SecretUnset)),
        ] {
            let found = read.find(&Namespace::new(namespace), path, key);
            let found = found.as_ref().map(|value| value.as_str());
            let found = found.map_err(|problem| problem.code);
            assert_eq!(found, expected, "{namespace} {path} {key}");
        }
    }
}
