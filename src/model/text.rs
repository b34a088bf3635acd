//! [`Text`]: an unchangeable text whose clones share their memory.

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An unchangeable text. Clones share their state.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Text(Arc<str>);

/// The text that most objects have: their namespace. It is kept once.
pub(super) const COMMON: &str = "default";
static COMMON_TEXT: LazyLock<Text> = LazyLock::new(|| Text(COMMON.into()));

impl Text {
    /// Returns whether there is another clone.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// The same memory is equal without a look at it.
impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::from("")
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        if text == COMMON {
            return COMMON_TEXT.clone();
        }
        Self(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_ordered_as_their_characters() {
        let texts = ["", "a", "default", "default", "default2", "é"];
        for one in texts {
            for other in texts {
                let (left, right) = (Text::from(one), Text::from(other.to_owned()));
                assert_eq!(left.cmp(&right), one.cmp(other), "{one} {other}");
                assert_eq!(left == right, one == other, "{one} {other}");
            }
        }
    }

    #[test]
    fn the_common_text_is_kept_once() {
        let read: Text = serde_json::from_str("\"default\"").unwrap();
        assert!(Arc::ptr_eq(&read.0, &Text::from("default").0));
    }
}
