//! The texts of CSI messages. Every message shows each of its texts with its [`TextKind`]; the code is generated with the
//! messages, so no field is forgotten.

use std::collections::BTreeMap;

/// What a text of a message may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// A text for people.
    Shown,
    /// An ID, a name, a path, a token of a list, or a segment of a topology. The name of a plugin is no text for people: it
    /// says which registrations may share data.
    Address,
    /// A value of a volume context or of parameters.
    Context,
    /// A value that may be secret, and may name what addresses name: of a publish context, or a mount flag.
    Sealed,
    /// A value of `secrets`.
    Secret,
}

/// Sees the texts of a message, and can change them.
pub type TextVisitor<'a> = dyn FnMut(TextKind, &mut String) + 'a;

/// A message that shows its texts.
pub trait MessageTexts {
    /// Shows every text to the visitor.
    fn visit(&mut self, visit: &mut TextVisitor<'_>);
}

impl<M: MessageTexts> MessageTexts for Option<M> {
    fn visit(&mut self, visit: &mut TextVisitor<'_>) {
        if let Some(message) = self {
            message.visit(visit);
        }
    }
}

impl<M: MessageTexts> MessageTexts for Vec<M> {
    fn visit(&mut self, visit: &mut TextVisitor<'_>) {
        for message in self {
            message.visit(visit);
        }
    }
}

/// A message without fields.
impl MessageTexts for () {
    fn visit(&mut self, _: &mut TextVisitor<'_>) {}
}

/// A field with texts.
pub(super) trait TextField {
    fn visit_texts(&mut self, kind: TextKind, visit: &mut TextVisitor<'_>);
}

impl TextField for String {
    fn visit_texts(&mut self, kind: TextKind, visit: &mut TextVisitor<'_>) {
        visit(kind, self);
    }
}

impl TextField for Vec<String> {
    fn visit_texts(&mut self, kind: TextKind, visit: &mut TextVisitor<'_>) {
        for text in self {
            visit(kind, text);
        }
    }
}

/// The key of a secret is not secret. Every other key is shown as its value is.
impl TextField for BTreeMap<String, String> {
    fn visit_texts(&mut self, kind: TextKind, visit: &mut TextVisitor<'_>) {
        if matches!(kind, TextKind::Secret | TextKind::Sealed) {
            self.values_mut().for_each(|value| visit(kind, value));
            return;
        }
        let entries = std::mem::take(self).into_iter();
        *self = entries
            .map(|(mut key, mut value)| {
                let kind_of_key = match kind {
                    TextKind::Context => TextKind::Address,
                    TextKind::Shown | TextKind::Address | TextKind::Sealed | TextKind::Secret => {
                        kind
                    }
                };
                visit(kind_of_key, &mut key);
                visit(kind, &mut value);
                (key, value)
            })
            .collect();
    }
}
