//! Page-aligned memory in sizes of powers of two, first from an arena and then from the heap.
//!
//! Freed memory is reused last in, first out, because it may still be in the CPU's caches; a warm
//! run allocates nothing. A limited amount of free heap memory is kept and the rest is returned to
//! the system, so that temporary use of many buffers or sizes does not occupy memory permanently.

use std::collections::BTreeMap;

use crate::memory::{ALIGN, Memory};

/// The number of sizes, which are `ALIGN << class`. The largest size suffices for any `u32` of
/// bytes.
const CLASSES: usize = 21;

/// The maximum amount of free heap memory to keep, in bytes.
const FREE_BYTES_MAX: usize = 256 << 20;

/// The address of some memory, and whether it is in the arena.
pub(super) type Place = (*mut u8, bool);

#[derive(Default)]
pub(super) struct Room {
    arena: Option<Memory>,
    /// The number of bytes of the arena that have ever been used; the rest has not been divided
    /// yet.
    cut: usize,
    /// Memory from the heap, by address.
    heap: BTreeMap<*mut u8, Memory>,
    /// The number of free bytes on the heap.
    free_bytes: usize,
    /// The addresses of free memory by class, in the arena and on the heap.
    free: [[Vec<*mut u8>; 2]; CLASSES],
}

impl Room {
    pub(super) fn new(arena_bytes: usize) -> Room {
        let arena = (arena_bytes > 0).then(|| Memory::zeroed(arena_bytes));
        Room { arena, ..Room::default() }
    }

    pub(super) fn arena(&self) -> Option<&Memory> {
        self.arena.as_ref()
    }

    /// Returns the number of bytes that a buffer of `len` bytes occupies.
    pub(super) fn size(len: u32) -> usize {
        ALIGN << class(len)
    }

    /// Returns memory for `len` bytes, which are initialized.
    pub(super) fn take(&mut self, len: u32) -> Place {
        let size = Room::size(len);
        let [inside, outside] = &mut self.free[class(len)];
        if let Some(start) = inside.pop() {
            return (start, true);
        }
        if let Some(arena) = self.arena.as_ref().filter(|arena| arena.len() - self.cut >= size) {
            let start = arena.address().wrapping_add(self.cut);
            self.cut += size;
            return (start, true);
        }
        if let Some(start) = outside.pop() {
            self.free_bytes -= size;
            return (start, false);
        }
        let memory = Memory::zeroed(size);
        let start = memory.address();
        self.heap.insert(start, memory);
        (start, false)
    }

    /// Frees memory that [`Room::take`] returned for this length.
    pub(super) fn give_back(&mut self, (start, inside): Place, len: u32) {
        if !inside {
            self.free_bytes += Room::size(len);
            while self.free_bytes > FREE_BYTES_MAX {
                // Memory of other sizes, which are currently not in demand, is released first.
                let others = (0..CLASSES).rev().filter(|other| *other != class(len));
                let mut found =
                    others.filter_map(|other| Some((other, self.free[other][1].pop()?)));
                let gone = found.next().unwrap_or((class(len), start));
                self.free_bytes -= ALIGN << gone.0;
                self.heap.remove(&gone.1);
                if gone.1 == start {
                    return;
                }
            }
        }
        self.free[class(len)][usize::from(!inside)].push(start);
    }

    /// Returns all free heap memory to the system.
    pub(super) fn trim(&mut self) {
        for [_, outside] in &mut self.free {
            outside.drain(..).for_each(|start| drop(self.heap.remove(&start)));
            outside.shrink_to_fit();
        }
        self.free_bytes = 0;
    }
}

fn class(len: u32) -> usize {
    let size = (len as usize).max(ALIGN).next_power_of_two();
    (size.ilog2() - ALIGN.ilog2()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_next_powers_of_two() {
        let sizes = [0, 1, 4096, 4097, (1 << 20) + 8192, 2 << 20, u32::MAX].map(Room::size);
        assert_eq!(sizes, [4096, 4096, 4096, 8192, 2 << 20, 2 << 20, 1 << 32]);
        assert_eq!(class(u32::MAX), CLASSES - 1);
    }

    #[test]
    fn the_arena_is_used_up_before_the_heap_and_again_before_it() {
        let mut room = Room::new(5 * ALIGN);
        let places = [8192, 8192, 8192, 1, 1].map(|len| (room.take(len), len));
        assert_eq!(places.map(|((_, inside), _)| inside), [true, true, false, true, false]);
        for ((start, _), len) in places {
            assert_eq!(start as usize % ALIGN, 0, "{len} bytes begin at a page");
        }
        let begin = room.arena().map_or(0, |arena| arena.address() as usize);
        let at = places.map(|((start, _), _)| (start as usize).wrapping_sub(begin));
        assert_eq!([at[0], at[1], at[3]], [0, 2 * ALIGN, 4 * ALIGN]);
        for (place, len) in places {
            room.give_back(place, len);
        }
        assert_eq!(room.take(8000), places[1].0, "in the arena, the last one first");
        assert_eq!(room.take(8000), places[0].0);
        assert_eq!(room.take(8000), places[2].0);
        assert_eq!(room.heap.len(), 2);
    }

    #[test]
    fn free_memory_beyond_a_limit_is_returned_to_the_system() {
        let (mut room, large) = (Room::new(0), (FREE_BYTES_MAX / 4) as u32);
        let places: Vec<Place> = (0..5).map(|_| room.take(large)).collect();
        let small: Vec<Place> = (0..3).map(|_| room.take(1)).collect();
        places.iter().for_each(|place| room.give_back(*place, large));
        let held = |room: &Room| room.heap.values().map(Memory::len).sum::<usize>();
        assert_eq!((room.free_bytes, held(&room)), (FREE_BYTES_MAX, FREE_BYTES_MAX + 3 * ALIGN));
        // Memory in use is kept, so memory of another size is released.
        small.iter().for_each(|place| room.give_back(*place, 1));
        assert_eq!(held(&room), FREE_BYTES_MAX / 4 * 3 + 3 * ALIGN);
        assert_eq!((room.free_bytes, room.heap.len()), (held(&room), 6));
        assert_eq!(room.take(1), small[2]);
        assert_eq!(room.free_bytes, held(&room) - ALIGN);
        room.trim();
        assert_eq!((room.free_bytes, held(&room)), (0, ALIGN), "only what is in use is left");
        assert_ne!(room.take(large).0, small[2].0);
    }
}
