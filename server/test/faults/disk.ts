/** A disk of its own, small enough to fill: a file system in memory, mounted for the time of a scenario. */
import { spawnSync } from "node:child_process";
import { closeSync, ftruncateSync, fstatSync, mkdtempSync, openSync, rmdirSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface SmallDisk {
  readonly path: string;
  /** Takes all the room there is, but for `spare` bytes. */
  fill(spare?: number): void;
  free(): void;
  unmount(): void;
}

const CHUNK = Buffer.alloc(1 << 20, 7);

/** Why no disk can be mounted here, if so. */
export function whyNoDisk(): string | undefined {
  if (process.platform !== "linux") return "mounting a small disk is known for Linux only";
  if (process.getuid?.() !== 0) return "mounting a small disk needs root";
  const path = mkdtempSync(join(tmpdir(), "keyward-mount-"));
  const tried = spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", path], { encoding: "utf8" });
  if (tried.status === 0) spawnSync("umount", [path]);
  rmdirSync(path);
  return tried.status === 0
    ? undefined
    : `mount: ${tried.error?.message ?? (tried.stderr.trim() || "refused")}`;
}

export function mountSmallDisk(megabytes: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), "keyward-full-"));
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m,mode=755`, "tmpfs", path], {
    encoding: "utf8",
  });
  if (mounted.status !== 0) throw new Error(`mount: ${mounted.stderr}`);
  const ballast = openSync(join(path, "ballast"), "a");
  const fill = (spare = 0): void => {
    for (let size = CHUNK.length; size >= 4096;) {
      try {
        if (writeSync(ballast, CHUNK, 0, size) < size) size /= 2;
      } catch {
        size /= 2;
      }
    }
    if (spare > 0) ftruncateSync(ballast, Math.max(0, fstatSync(ballast).size - spare));
  };
  return {
    path,
    fill,
    free: () => ftruncateSync(ballast, 0),
    unmount() {
      closeSync(ballast);
      // Lazily: a process that just ended may still be on its way out.
      spawnSync("umount", ["-l", path]);
      rmdirSync(path);
    },
  };
}
