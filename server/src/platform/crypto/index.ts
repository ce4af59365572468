export { decrypt, DecryptError, deriveKey, encrypt, encryptLong } from "./aead.ts";
export { checkRootKey, openKeyring, RootKeyError, type Keyring, type Place, type Vault } from "./keyring.ts";
export { checkPassword, hashPassword } from "./passwords.ts";
export { openToken, signToken, type Claims } from "./tokens.ts";
