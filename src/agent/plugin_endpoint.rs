//! The text of `--plugin-endpoint`: a plugin that runs already, by its socket.

use std::path::PathBuf;

use nomad_csi_model::PluginId;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};

/// A plugin that runs already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginEndpoint {
    /// Its ID; `None` if it is its own name.
    pub id: Option<PluginId>,
    /// Its socket.
    pub socket: PathBuf,
}

impl PluginEndpoint {
    /// Parses `[ID=]unix:///PATH`, each with its own socket.
    ///
    /// # Errors
    /// All texts that are not valid.
    pub(super) fn parse_all(texts: &[String]) -> Result<Vec<Self>, Diagnostics> {
        let mut problems = Diagnostics::default();
        let mut endpoints: Vec<Self> = vec![];
        for text in texts {
            let why = match Self::parse(text) {
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

    fn parse(text: &str) -> Result<Self, &'static str> {
        let (id, endpoint) = match text.split_once("=unix://") {
            Some((id, path)) => (Some(PluginId::new(id)), Some(path)),
            None => (None, text.strip_prefix("unix://")),
        };
        let socket = endpoint.map(PathBuf::from).filter(|socket| socket.is_absolute());
        let socket = socket.ok_or("it is not the absolute path of a Unix socket")?;
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
        PluginEndpoint::parse_all(&texts)
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
        let controller_and_node = ["ebs=unix:///run/c.sock", "ebs=unix:///run/n.sock"];
        assert_eq!(parse(&controller_and_node).unwrap().len(), 2);
    }

    #[test]
    fn all_wrong_endpoints_are_reported() {
        let wrong = [
            "",
            "/run/a.sock",
            "unix://run/a.sock",
            "tcp://127.0.0.1:1",
            "=unix:///run/a.sock",
            "ebs=unix://",
        ];
        assert_eq!(parse(&wrong), Err(wrong.len()));
        let twice = ["a=unix:///run/a.sock", "b=unix:///run/a.sock"];
        assert_eq!(parse(&twice), Err(1));
    }
}
