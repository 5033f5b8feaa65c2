//! Infers the shape of records from scanner events.

use super::{
    Field, MAX_FIELDS, MAX_LEVELS, MAX_NAME_CHARS, MAX_NESTED_FIELDS, MAX_NODES, Node, Shape,
};
use lro_json::{Container, TokenKind, TokenVisitor, decode};

/// Infers the shape of records from scanner events.
#[derive(Debug)]
pub(crate) struct ShapeBuilder {
    /// The nesting depth of a record.
    base: usize,
    nodes: Vec<Node>,
    open: Vec<Frame>,
    /// The node of the member whose name was read last.
    member: Option<usize>,
    /// The node of the current scalar.
    scalar: Option<usize>,
    /// The number of open containers below [`MAX_LEVELS`].
    below: usize,
}

/// An open container of a record.
#[derive(Debug)]
struct Frame {
    /// `None` if the container is not part of the shape.
    node: Option<usize>,
    container: Container,
    /// The index of the field expected next: most records have their fields in the same order.
    next: usize,
    unlisted: usize,
}

impl ShapeBuilder {
    pub(crate) fn new(base: usize) -> Self {
        let nodes = vec![Node::default()];
        Self { base, nodes, open: Vec::new(), member: None, scalar: None, below: 0 }
    }

    /// The shape so far, between two records.
    pub(crate) fn snapshot(&self) -> Shape {
        Shape { nodes: self.nodes.clone() }
    }

    pub(crate) fn finish(self) -> Shape {
        Shape { nodes: self.nodes }
    }

    fn add_node(&mut self) -> Option<usize> {
        if self.nodes.len() == MAX_NODES {
            return None;
        }
        self.nodes.push(Node::default());
        Some(self.nodes.len() - 1)
    }

    /// The node for the value that begins.
    #[inline]
    fn next_node(&mut self) -> Option<usize> {
        let Some(frame) = self.open.last() else { return Some(0) };
        match (frame.container, frame.node) {
            (Container::Object, _) => self.member.take(),
            (Container::Array, None) => None,
            (Container::Array, Some(array)) => {
                if self.nodes[array].items.is_none() {
                    self.nodes[array].items = self.add_node();
                }
                self.nodes[array].items
            }
        }
    }

    /// The index of the field of `object` that `lexeme` names, and its node.
    #[inline]
    fn field_by_lexeme(
        &mut self,
        object: usize,
        expected: usize,
        lexeme: &[u8],
    ) -> Option<(usize, usize)> {
        // Nearly every name is the expected one, without escapes.
        let node = &mut self.nodes[object];
        if let Some(field) = node.fields.get_mut(expected)
            && field.plain
            && same(field.name.as_bytes(), lexeme)
        {
            field.count_in(node.objects);
            return Some((expected, field.node));
        }
        if lexeme.len() > MAX_NAME_CHARS * 4 {
            return None;
        }
        // The same name may be written with or without escapes.
        self.field(object, &decode(lexeme)?)
    }

    /// The index of the field `name` of `object`, and its node. Adds the field if it is new.
    fn field(&mut self, object: usize, name: &str) -> Option<(usize, usize)> {
        let node = &mut self.nodes[object];
        if let Some(index) = node.fields.iter().position(|field| *field.name == *name) {
            let field = &mut node.fields[index];
            field.count_in(node.objects);
            return Some((index, field.node));
        }
        let cap = if object == 0 { MAX_FIELDS } else { MAX_NESTED_FIELDS };
        let new = if node.fields.len() < cap { self.add_node()? } else { return None };
        let node = &mut self.nodes[object];
        let (plain, name) = (!name.contains('\\'), name.into());
        node.fields.push(Field { name, plain, node: new, objects: 1, counted_in: node.objects });
        Some((node.fields.len() - 1, new))
    }
}

impl TokenVisitor for ShapeBuilder {
    #[inline]
    fn begin(&mut self, kind: TokenKind, _: u64, depth: usize) {
        let container = match kind {
            TokenKind::Array => Some(Container::Array),
            TokenKind::Object => Some(Container::Object),
            _ => None,
        };
        if self.below > 0 {
            self.below += usize::from(container.is_some());
            return;
        }
        let node = self.next_node();
        let Some(container) = container else {
            self.scalar = node;
            return;
        };
        if let Some(node) = node {
            let node = &mut self.nodes[node];
            node.kinds.add(kind);
            node.objects += u64::from(container == Container::Object);
        }
        if depth - self.base == MAX_LEVELS {
            self.below = 1;
            // Its fields are not tracked, and must not count as absent.
            if let Some(node) = node {
                self.nodes[node].unlisted = 1;
            }
        } else {
            self.open.push(Frame { node, container, next: 0, unlisted: 0 });
        }
    }

    #[inline]
    fn end(&mut self, kind: TokenKind, _: u64, _: usize, _: Option<&[u8]>) {
        let container = matches!(kind, TokenKind::Array | TokenKind::Object);
        if self.below > 0 {
            self.below -= usize::from(container);
        } else if container {
            self.open.pop();
        } else if let Some(node) = self.scalar.take() {
            self.nodes[node].kinds.add(kind);
        }
    }

    #[inline]
    fn key(&mut self, lexeme: Option<&[u8]>) {
        if self.below > 0 {
            return;
        }
        self.member = None;
        let Some(&Frame { node: Some(object), next, .. }) = self.open.last() else { return };
        let field = lexeme.and_then(|lexeme| self.field_by_lexeme(object, next, lexeme));
        let Some(frame) = self.open.last_mut() else { return };
        if let Some((index, node)) = field {
            self.member = Some(node);
            frame.next = index + 1;
        } else {
            frame.unlisted += 1;
            let unlisted = &mut self.nodes[object].unlisted;
            *unlisted = frame.unlisted.max(*unlisted);
        }
    }
}

impl Shape {
    /// The shape of a table with these columns.
    pub(crate) fn from_columns<'a>(
        columns: impl IntoIterator<Item = (&'a str, &'static [TokenKind])>,
        count: u64,
    ) -> Self {
        let mut builder = ShapeBuilder::new(0);
        builder.nodes[0].kinds.add(TokenKind::Object);
        builder.nodes[0].objects = count;
        for (name, kinds) in columns {
            let Some((_, node)) = builder.field(0, name) else { break };
            for kind in kinds {
                builder.nodes[node].kinds.add(*kind);
            }
        }
        builder.nodes[0].fields.iter_mut().for_each(|field| field.objects = count);
        builder.finish()
    }
}

/// Whether two names are equal. Most are short, and a call to `memcmp` would take longer than the
/// comparison itself.
#[inline]
fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    // Eight bytes from either end cover up to sixteen.
    match (one.first_chunk::<8>(), one.last_chunk::<8>()) {
        (Some(first), Some(last)) if one.len() <= 16 => {
            other.first_chunk() == Some(first) && other.last_chunk() == Some(last)
        }
        (None, None) => one.iter().zip(other).all(|(a, b)| a == b),
        _ => one == other,
    }
}
