//! Resolves references on this machine.

use std::path::Path;

use super::env::{self, EnvLookup};
use super::file::{self, Readings};
use crate::ports::{ResolvedSecret, SecretProblem, SecretSource};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Secret, SecretRef};

/// Environment variables and files.
#[derive(Clone)]
pub struct LocalSecrets {
    variables: EnvLookup,
    readings: Readings,
}

impl LocalSecrets {
    /// Returns a source with this lookup of environment variables.
    pub fn new(variables: EnvLookup) -> Self {
        Self { variables, readings: Readings::Many }
    }

    /// Returns the source for references that are read once, so that their files may be pipes.
    #[must_use]
    pub fn reading_once(self) -> Self {
        Self { readings: Readings::One, ..self }
    }
}

impl SecretSource for LocalSecrets {
    fn resolve(
        &self,
        reference: &SecretRef,
        directory: &Path,
    ) -> Result<ResolvedSecret, SecretProblem> {
        match reference {
            SecretRef::Literal(value) | SecretRef::Evaluated(value) => {
                Ok(ResolvedSecret { value: Secret::clone(value), warning: None })
            }
            SecretRef::Env(name) => env::find(&self.variables, name),
            SecretRef::File(path) => file::find(&directory.join(path), path, self.readings),
            SecretRef::NomadVar { path, .. } => Err(SecretProblem {
                code: Code::SecretUnset,
                message: format!(
                    "the Nomad variable `{path}` can be read for a specification only"
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn sources() -> LocalSecrets {
        LocalSecrets::new(Arc::new(|name| match name {
            "SET" => Some("hunter2\n".into()),
            "EMPTY" => Some("".into()),
            _ => None,
        }))
    }

    fn code(found: &Result<ResolvedSecret, SecretProblem>) -> Result<&str, Code> {
        let found = found.as_ref();
        found.map(|found| found.value.as_str()).map_err(|remark| remark.code)
    }

    #[test]
    fn a_variable_keeps_its_value_and_an_empty_one_is_refused() {
        let find = |name: &str| sources().resolve(&SecretRef::Env(name.into()), Path::new("/"));
        assert_eq!(code(&find("SET")), Ok("hunter2\n"));
        assert_eq!(code(&find("EMPTY")), Err(Code::SecretEmpty));
        assert_eq!(code(&find("GONE")), Err(Code::SecretUnset));
    }

    #[test]
    fn one_line_break_at_the_end_of_a_file_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        for (name, bytes, expected) in [
            ("plain", &b"hunter2"[..], Ok("hunter2")),
            ("line", b"hunter2\n", Ok("hunter2")),
            ("windows", b"hunter2\r\n", Ok("hunter2")),
            ("two", b"hunter2\n\n", Ok("hunter2\n")),
            ("return", b"hunter2\r", Ok("hunter2\r")),
            ("empty", b"", Err(Code::SecretEmpty)),
            ("newline", b"\n", Err(Code::SecretEmpty)),
            ("binary", b"\xff\xfe", Err(Code::SecretNotText)),
            ("zero", b"a\0b", Err(Code::SecretNotText)),
            ("large", &[b'x'; 65537], Err(Code::SecretTooLarge)),
        ] {
            std::fs::write(directory.path().join(name), bytes).unwrap();
            let found = sources().resolve(&SecretRef::File(name.into()), directory.path());
            assert_eq!(code(&found), expected, "{name}");
            assert!(!format!("{found:?}").contains("hunter2"));
        }
        for name in ["nowhere", "."] {
            let found = sources().resolve(&SecretRef::File(name.into()), directory.path());
            assert_eq!(code(&found), Err(Code::SecretFile), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_writable_file_is_refused_and_a_readable_one_warns() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "hunter2").unwrap();
        for (mode, expected) in [
            (0o600, Ok(false)),
            (0o400, Ok(false)),
            (0o620, Err(Code::SecretExposed)),
            (0o640, Ok(true)),
            (0o604, Ok(true)),
            (0o602, Err(Code::SecretExposed)),
            (0o666, Err(Code::SecretExposed)),
        ] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let found = sources().resolve(&SecretRef::File("key".into()), directory.path());
            let warned = found.map(|found| found.warning.is_some());
            assert_eq!(warned.map_err(|remark| remark.code), expected, "{mode:o}");
        }
    }
}
