export { decrypt, DecryptError, deriveKey, encrypt, encryptLong } from "./aead.ts";
export {
  checkRootKey,
  openKeyring,
  RootKeyError,
  type Keyring,
  type EncryptionContext,
  type DataKey,
} from "./keyring.ts";
export { checkPassword, hashPassword } from "./passwords.ts";
export { openToken, signToken, type Claims } from "./tokens.ts";
