//! Builder: takes the shape of records while they are scanned.

use super::{FIELDS_CAP, Field, LEVELS, NAME_CAP, NESTED_FIELDS_CAP, NODES_CAP, Node, Shape};
use lro_json::{Container, Events, Kind, decode};

/// Takes the shape of records while they are scanned.
#[derive(Debug)]
pub(crate) struct ShapeBuilder {
    /// Containers open around a record.
    base: usize,
    nodes: Vec<Node>,
    open: Vec<Frame>,
    /// The node of the member whose name came last.
    member: Option<usize>,
    /// The node of the scalar being read.
    scalar: Option<usize>,
    /// Containers open below the levels that are told.
    below: usize,
}

/// An open container of a record.
#[derive(Debug)]
struct Frame {
    /// `None` where it is not told.
    node: Option<usize>,
    container: Container,
    /// The field that is likely to come next: most records have theirs in the same order.
    next: usize,
    unlisted: usize,
}

impl ShapeBuilder {
    pub(crate) fn new(base: usize) -> Self {
        let nodes = vec![Node::default()];
        Self { base, nodes, open: Vec::new(), member: None, scalar: None, below: 0 }
    }

    /// The shape as it stands between two records.
    pub(crate) fn so_far(&self) -> Shape {
        Shape { nodes: self.nodes.clone() }
    }

    pub(crate) fn finish(self) -> Shape {
        Shape { nodes: self.nodes }
    }

    fn add_node(&mut self) -> Option<usize> {
        if self.nodes.len() == NODES_CAP {
            return None;
        }
        self.nodes.push(Node::default());
        Some(self.nodes.len() - 1)
    }

    /// The node for the value that begins.
    #[inline]
    fn place(&mut self) -> Option<usize> {
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

    /// The place among the fields of `object` of the one that `lexeme` names, and its node.
    #[inline]
    fn named(&mut self, object: usize, expected: usize, lexeme: &[u8]) -> Option<(usize, usize)> {
        // Nearly every name is the one expected, and spelled without escapes.
        let node = &mut self.nodes[object];
        if let Some(field) = node.fields.get_mut(expected)
            && field.plain
            && same(field.name.as_bytes(), lexeme)
        {
            field.count_in(node.objects);
            return Some((expected, field.node));
        }
        if lexeme.len() > NAME_CAP * 4 {
            return None;
        }
        // The same name may be spelled with escapes and without.
        self.field(object, &decode(lexeme)?)
    }

    /// The place of the field `name` among the fields of `object`, and its node.
    fn field(&mut self, object: usize, name: &str) -> Option<(usize, usize)> {
        let node = &mut self.nodes[object];
        if let Some(found) = node.fields.iter().position(|field| *field.name == *name) {
            let field = &mut node.fields[found];
            field.count_in(node.objects);
            return Some((found, field.node));
        }
        let cap = if object == 0 { FIELDS_CAP } else { NESTED_FIELDS_CAP };
        let new = if node.fields.len() < cap { self.add_node()? } else { return None };
        let node = &mut self.nodes[object];
        let (plain, name) = (!name.contains('\\'), name.into());
        node.fields.push(Field { name, plain, node: new, objects: 1, counted_in: node.objects });
        Some((node.fields.len() - 1, new))
    }
}

impl Events for ShapeBuilder {
    #[inline]
    fn begin(&mut self, kind: Kind, _: u64, depth: usize) {
        let container = match kind {
            Kind::Array => Some(Container::Array),
            Kind::Object => Some(Container::Object),
            _ => None,
        };
        if self.below > 0 {
            self.below += usize::from(container.is_some());
            return;
        }
        let node = self.place();
        let Some(container) = container else {
            self.scalar = node;
            return;
        };
        if let Some(node) = node {
            let node = &mut self.nodes[node];
            node.kinds.add(kind);
            node.objects += u64::from(container == Container::Object);
        }
        if depth - self.base == LEVELS {
            self.below = 1;
            // What is in it is not listed, and must not be taken for absent.
            if let Some(node) = node {
                self.nodes[node].unlisted = 1;
            }
        } else {
            self.open.push(Frame { node, container, next: 0, unlisted: 0 });
        }
    }

    #[inline]
    fn end(&mut self, kind: Kind, _: u64, _: usize, _: Option<&[u8]>) {
        let container = matches!(kind, Kind::Array | Kind::Object);
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
        let found = lexeme.and_then(|lexeme| self.named(object, next, lexeme));
        let Some(frame) = self.open.last_mut() else { return };
        if let Some((place, node)) = found {
            self.member = Some(node);
            frame.next = place + 1;
        } else {
            frame.unlisted += 1;
            let unlisted = &mut self.nodes[object].unlisted;
            *unlisted = frame.unlisted.max(*unlisted);
        }
    }
}

impl Shape {
    /// A shape of plain columns.
    pub(crate) fn of_columns<'a>(
        columns: impl IntoIterator<Item = (&'a str, &'static [Kind])>,
        count: u64,
    ) -> Self {
        let mut builder = ShapeBuilder::new(0);
        builder.nodes[0].kinds.add(Kind::Object);
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

/// Whether two names are the same. Most are short, and a call to compare them would take longer than
/// comparing them.
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
