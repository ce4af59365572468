// Which of all possible mutants are tried: spread over the rooms by their lines, at most one of a function, the same for
// the same seed. The draw goes by what a place says and not by where it stands, so that a file that is moved or another
// that is edited does not change what is drawn elsewhere.
import { digest } from "./workspaces.mjs";

/** A room, or a sub-room of one of the three that are as large as all others together. */
export function roomOf(path) {
  const parts = path.split("/");
  if (parts[0] === "packages") return parts.slice(0, 2).join("/");
  if (parts[0] !== "server") return parts[0];
  const inRoom = parts.slice(2, -1);
  const depth = ["platform", "certificates", "secrets"].includes(inRoom[0]) ? 2 : 1;
  return inRoom.slice(0, depth).join("/") || "server";
}

/** Seats by lines, the remainders to the largest fractions. */
export function shares(linesOfRooms, count) {
  const all = [...linesOfRooms.values()].reduce((sum, lines) => sum + lines, 0);
  const rooms = [...linesOfRooms].map(([room, lines]) => ({ room, exact: (lines / all) * count }));
  const given = new Map(rooms.map(({ room, exact }) => [room, Math.floor(exact)]));
  const left = count - [...given.values()].reduce((sum, seats) => sum + seats, 0);
  rooms.sort((a, b) => (b.exact % 1) - (a.exact % 1) || (a.room < b.room ? -1 : 1));
  for (const { room } of rooms.slice(0, left)) given.set(room, given.get(room) + 1);
  return given;
}

/** Every place with a name of its own that lasts as long as the text around it. */
export function named(places) {
  const seen = new Map();
  return places.map((place) => {
    const says = [
      place.kind,
      place.owner.replace(/@\d+/g, ""),
      place.lineText,
      place.before,
      place.after,
    ].join("\n");
    const nth = (seen.get(says) ?? 0) + 1;
    seen.set(says, nth);
    return { ...place, id: digest(`${says}\n${nth}`) };
  });
}

/** `files`: `{ path, lines, places }` of each source. */
export function sampleOf(files, { seed, count }) {
  const places = named(files.flatMap((file) => file.places));
  const linesOfRooms = new Map();
  for (const { path, lines, places: own } of files)
    if (own.length > 0) linesOfRooms.set(roomOf(path), (linesOfRooms.get(roomOf(path)) ?? 0) + lines);
  const seats = shares(linesOfRooms, count);
  const ranked = places
    .map((place) => ({ ...place, room: roomOf(place.path), rank: digest(`${seed} ${place.id}`) }))
    .sort((a, b) => (a.rank < b.rank ? -1 : 1));
  const taken = new Set();
  const drawn = ranked.filter(({ path, owner, room }) => {
    const function_ = `${path} ${owner}`;
    if (seats.get(room) === 0 || taken.has(function_)) return false;
    taken.add(function_);
    seats.set(room, seats.get(room) - 1);
    return true;
  });
  return drawn;
}
