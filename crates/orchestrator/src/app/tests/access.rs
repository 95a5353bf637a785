//! Keys and logins.

use jiff::{SignedDuration, Timestamp};
use protocol::job::UserRole;
use secrecy::ExposeSecret;
use uuid::Uuid;

use super::test_server::{TestSite, user, within};
use crate::app::{App, AppError, Caller};

#[test]
fn a_key_opens_until_it_is_revoked_and_its_logins_with_it() {
    within(async {
        let site = TestSite::new();
        let server = site.server().await;
        let app = App::new(server.parts().clone());
        let admin = Caller::local();
        let made = app.create_key(
            &admin,
            "ada".to_owned(),
            UserRole::User,
            "laptop".to_owned(),
        );
        let (key, token) = made.await.unwrap();
        let token = token.expose_secret();
        assert!(token.starts_with(&key.prefix) && token.len() > key.prefix.len() + 30);

        let ada = app.authenticate(token).await.unwrap().unwrap();
        assert_eq!((ada.user.as_str(), ada.role), ("ada", UserRole::User));
        assert_eq!(ada.key, Some(key.id));
        for wrong in ["", "hc_", &token[1..], &format!("{token}x")] {
            assert_eq!(app.authenticate(wrong).await.unwrap(), None, "{wrong}");
        }
        let later = Timestamp::now() + SignedDuration::from_hours(1);
        let login = app.log_in(&ada, later).await.unwrap();
        let login = login.expose_secret();
        assert_eq!(
            app.authenticate_login(login).await.unwrap(),
            Some(ada.clone())
        );
        assert_eq!(
            app.authenticate(login).await.unwrap(),
            None,
            "a login is no key"
        );
        let past = Timestamp::now() - SignedDuration::from_hours(1);
        let old = app.log_in(&ada, past).await.unwrap();
        let old = app.authenticate_login(old.expose_secret()).await;
        assert_eq!(old.unwrap(), None);
        let left = app.log_in(&ada, later).await.unwrap();
        app.log_out(left.expose_secret()).await.unwrap();
        let left = app.authenticate_login(left.expose_secret()).await;
        assert_eq!(left.unwrap(), None);
        assert!(app.log_in(&admin, later).await.is_err(), "without a key");

        app.revoke_key(&ada, key.id).await.unwrap();
        assert_eq!(app.authenticate(token).await.unwrap(), None);
        assert_eq!(app.authenticate_login(login).await.unwrap(), None);
        let again = app.revoke_key(&ada, key.id).await;
        assert!(matches!(again, Err(AppError::Conflict(_))));
    });
}

#[test]
fn users_see_only_their_own_keys() {
    within(async {
        let site = TestSite::new();
        let server = site.server().await;
        let app = App::new(server.parts().clone());
        let create = async |caller: &Caller, user: &str, role| {
            let made = app.create_key(caller, user.to_owned(), role, String::new());
            made.await.map(|(key, _)| key.id)
        };
        let admin = Caller::local();
        let (ada, bob) = (user("ada"), user("bob"));
        let adas = create(&ada, "ada", UserRole::User).await.unwrap();
        let bobs = create(&admin, "bob", UserRole::User).await.unwrap();
        create(&admin, "eve", UserRole::Admin).await.unwrap();
        for (user, role) in [("bob", UserRole::User), ("ada", UserRole::Admin)] {
            let refused = create(&ada, user, role).await;
            assert!(matches!(refused, Err(AppError::Forbidden(_))), "{user}");
        }
        for bad in ["", " ", "a\nb", &"x".repeat(101)] {
            let refused = create(&admin, bad, UserRole::User).await;
            assert!(matches!(refused, Err(AppError::Invalid(_))), "{bad:?}");
        }
        let ids = async |caller: &Caller| -> Vec<Uuid> {
            let keys = app.keys(caller).await.unwrap();
            keys.iter().map(|key| key.id).collect()
        };
        assert_eq!(ids(&ada).await, [adas]);
        assert_eq!(ids(&bob).await, [bobs]);
        assert_eq!(ids(&admin).await.len(), 3);
        let refused = app.revoke_key(&bob, adas).await;
        assert!(matches!(refused, Err(AppError::NoKey(_))));
        app.revoke_key(&admin, adas).await.unwrap();
    });
}
