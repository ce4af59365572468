/** `Map.groupBy`, which Node 20 does not have yet: groups in the order in which they appear, each in the order of the items. */
export function groupBy<Item, Key>(items: Iterable<Item>, keyOf: (item: Item) => Key): Map<Key, Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) addToGroup(groups, keyOf(item), item);
  return groups;
}

/** For groups that are added to over time. */
export function addToGroup<Key, Item>(groups: Map<Key, Item[]>, key: Key, item: Item): void {
  const group = groups.get(key);
  if (group) group.push(item);
  else groups.set(key, [item]);
}
