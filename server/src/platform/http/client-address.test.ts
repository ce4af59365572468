import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseCidrs } from "../config.ts";
import { clientAddress, networkOf, regionOf } from "./client-address.ts";

describe("the caller's address", () => {
  const proxies = parseCidrs("10.0.0.0/8, fd00::/8");

  it("S-50 is the socket's, whatever headers say, unless the socket is a trusted proxy's", () => {
    assert.equal(clientAddress("203.0.113.9", "1.2.3.4", proxies), "203.0.113.9");
    assert.equal(clientAddress("10.1.1.1", "1.2.3.4", proxies), "1.2.3.4");
    assert.equal(clientAddress("::ffff:10.1.1.1", "1.2.3.4", proxies), "1.2.3.4");
  });

  it("is the last hop that is not ours: what stands before it anyone may have written", () => {
    assert.equal(clientAddress("10.1.1.1", "6.6.6.6, 1.2.3.4, 10.2.2.2", proxies), "1.2.3.4");
    assert.equal(clientAddress("10.1.1.1", "nonsense", proxies), "10.1.1.1");
    assert.equal(clientAddress("10.1.1.1", "10.3.3.3", proxies), "10.1.1.1");
  });

  it("is counted by itself for IPv4 and by its /64 for IPv6", () => {
    assert.equal(networkOf("203.0.113.9"), "203.0.113.9");
    assert.equal(networkOf("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
    assert.equal(networkOf("2001:0DB8:0001:0002::ffff"), "2001:db8:1:2::/64");
    assert.equal(networkOf("::1"), "0:0:0:0::/64");
    assert.equal(networkOf("fe80::1%eth0"), "fe80:0:0:0::/64");
    assert.equal(regionOf("203.0.113.9"), "203.0.112.0/20");
    assert.equal(regionOf("2001:db8:1:2:3:4:5:6"), "2001:db8:1::/48");
    assert.equal(regionOf("::1"), "0:0:0::/48");
  });
});
