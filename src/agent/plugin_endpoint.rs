//! The text of `--plugin-endpoint`: a plugin that runs already, by its socket.

use std::path::{Path, PathBuf};

use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::{PluginId, socket_path};

/// A plugin that runs already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginEndpoint {
    /// Its ID; `None` if it is its own name.
    pub id: Option<PluginId>,
    /// Its socket.
    pub socket: PathBuf,
}

impl PluginEndpoint {
    /// Parses `[ID=]URL`, each with its own socket. Relative paths start from `directory`.
    ///
    /// # Errors
    /// All texts that are not valid.
    pub(super) fn parse_all(texts: &[String], directory: &Path) -> Result<Vec<Self>, Diagnostics> {
        let mut problems = Diagnostics::default();
        let mut endpoints: Vec<Self> = vec![];
        for text in texts {
            let why = match Self::parse(text, directory) {
                Ok(parsed) if endpoints.iter().any(|one| one.socket == parsed.socket) => {
                    "its socket is given twice"
                }
                Ok(parsed) => {
                    endpoints.push(parsed);
                    continue;
                }
                Err(why) => why,
            };
            let message = format!("cannot use the plugin endpoint `{text}`: {why}");
            let code = Code::AgentBadPluginEndpoint;
            problems.push(Diagnostic::error(code, message).help(code.advice()));
        }
        match problems.has_errors() {
            true => Err(problems),
            false => Ok(endpoints),
        }
    }

    fn parse(text: &str, directory: &Path) -> Result<Self, &'static str> {
        // The path of a socket may have `=` too.
        let begins_endpoint = ["unix:", "/", "."].iter().any(|start| text.starts_with(start));
        let (id, endpoint) = match text.split_once('=') {
            Some((id, endpoint)) if !begins_endpoint => (Some(PluginId::new(id)), endpoint),
            Some(_) | None => (None, text),
        };
        let socket = socket_path(endpoint).ok_or("it is not the path of a Unix socket")?;
        let socket = directory.join(socket);
        match id.as_ref().map(PluginId::as_str) {
            Some("") => Err("the ID of the plugin is empty"),
            Some(_) | None => Ok(Self { id, socket }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[&str]) -> Result<Vec<(Option<String>, String)>, usize> {
        let texts: Vec<_> = texts.iter().map(ToString::to_string).collect();
        let shown = |one: PluginEndpoint| {
            let id = one.id.map(|id| id.to_string());
            (id, one.socket.display().to_string())
        };
        PluginEndpoint::parse_all(&texts, Path::new("/work"))
            .map(|endpoints| endpoints.into_iter().map(shown).collect())
            .map_err(|problems| problems.iter().count())
    }

    #[test]
    fn an_endpoint_is_a_socket_with_or_without_an_id() {
        let parsed = parse(&["unix:///run/a.sock", "ebs=unix:///run/b=c.sock"]).unwrap();
        let expected = [
            (None, "/run/a.sock".to_owned()),
            (Some("ebs".to_owned()), "/run/b=c.sock".to_owned()),
        ];
        assert_eq!(parsed, expected);
        for (text, id, socket) in [
            ("/run/a=b.sock", None, "/run/a=b.sock"),
            ("ebs=/run/a.sock", Some("ebs"), "/run/a.sock"),
            ("ebs=unix:/run/a.sock", Some("ebs"), "/run/a.sock"),
            ("ebs=a.sock", Some("ebs"), "/work/a.sock"),
            ("unix://run/a.sock", None, "/work/run/a.sock"),
        ] {
            let expected = (id.map(str::to_owned), socket.to_owned());
            assert_eq!(parse(&[text]), Ok(vec![expected]), "{text}");
        }
        let controller_and_node = ["ebs=unix:///run/c.sock", "ebs=unix:///run/n.sock"];
        assert_eq!(parse(&controller_and_node).unwrap().len(), 2);
    }

    #[test]
    fn all_wrong_endpoints_are_reported() {
        let wrong = [
            "",
            "tcp://127.0.0.1:1",
            "ebs=tcp://127.0.0.1:1",
            "=unix:///run/a.sock",
            "ebs=unix://",
        ];
        assert_eq!(parse(&wrong), Err(wrong.len()));
        let twice = ["a=unix:///run/a.sock", "b=unix:///run/a.sock"];
        assert_eq!(parse(&twice), Err(1));
    }
}
