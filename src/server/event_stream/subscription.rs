//! The subscription of a client: topics with keys, in a namespace.

use super::notice::Notice;
use nomad_csi_model::Namespace;

/// Selects every topic, or every key.
const EVERY: &str = "*";

/// A text that is not `Topic` or `Topic:key`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid topic query: {0}")]
pub(crate) struct TopicError(String);

/// The topics and the namespace of a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// Topics with keys; empty for all.
    topics: Vec<(String, String)>,
    namespace: Namespace,
}

impl Subscription {
    /// Reads the values of the parameter `topic`. None selects every topic.
    pub(crate) fn parse<'a>(
        topics: impl IntoIterator<Item = &'a str>,
        namespace: Namespace,
    ) -> Result<Self, TopicError> {
        let topics = topics.into_iter().map(|text| {
            let (topic, key) = text.split_once(':').unwrap_or((text, EVERY));
            match topic.is_empty() || key.contains(':') {
                true => Err(TopicError(text.to_owned())),
                false => Ok((topic.to_owned(), key.to_owned())),
            }
        });
        Ok(Self { topics: topics.collect::<Result<_, _>>()?, namespace })
    }

    /// Returns whether the subscriber sees this notice. Nodes and plugins are in no namespace.
    pub(crate) fn includes(&self, notice: &Notice) -> bool {
        let is_here = notice.namespace.is_empty()
            || self.namespace.as_str() == Namespace::ALL
            || self.namespace.as_str() == notice.namespace;
        let has_key = |key: &str| {
            key == EVERY || key == notice.key || notice.filter_keys.iter().any(|one| one == key)
        };
        let selects = |(topic, key): &(String, String)| {
            (topic == EVERY || topic == notice.topic) && has_key(key)
        };
        is_here && (self.topics.is_empty() || self.topics.iter().any(selects))
    }
}

#[cfg(test)]
mod tests {
    use super::super::notice::NoticeSubject;
    use super::*;
    use nomad_csi_claims::state::samples::key;

    fn notice() -> Notice {
        Notice {
            topic: "CSIVolume",
            event_type: "CSIVolumeClaim",
            key: "db".to_owned(),
            namespace: "prod".to_owned(),
            filter_keys: vec!["db".to_owned(), "ebs".to_owned()],
            subject: NoticeSubject::Volume(key("prod", "db")),
        }
    }

    #[test]
    fn a_topic_selects_by_kind_by_key_and_by_namespace() {
        for (topics, namespace, expected) in [
            (&[][..], "prod", true),
            (&[], "default", false),
            (&[], "*", true),
            (&["*"], "prod", true),
            (&["CSIVolume"], "prod", true),
            (&["CSIVolume:*"], "prod", true),
            (&["CSIVolume:db"], "prod", true),
            (&["CSIVolume:ebs"], "prod", true),
            (&["CSIVolume:other"], "prod", false),
            (&["*:ebs"], "prod", true),
            (&["Job", "CSIVolume"], "prod", true),
            (&["Job", "CSIPlugin"], "prod", false),
        ] {
            let namespace = Namespace::new(namespace);
            let subscription = Subscription::parse(topics.iter().copied(), namespace).unwrap();
            assert_eq!(subscription.includes(&notice()), expected, "{topics:?}");
        }
        let plugin = Notice { namespace: String::new(), ..notice() };
        let subscription = Subscription::parse([], Namespace::default()).unwrap();
        assert!(subscription.includes(&plugin), "plugins have no namespace");
    }

    #[test]
    fn a_topic_has_one_colon_at_most() {
        for text in ["", ":x", "CSIVolume:a:b"] {
            let refused = Subscription::parse([text], Namespace::default()).unwrap_err();
            assert_eq!(refused.to_string(), format!("Invalid topic query: {text}"));
        }
    }
}
